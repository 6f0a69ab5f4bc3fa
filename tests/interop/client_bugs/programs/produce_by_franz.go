// A producer writes a record. Prints whether it was written.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]))
	if err != nil {
		panic(err)
	}
	record := &kgo.Record{Topic: os.Args[2], Value: []byte("v")}
	if err := client.ProduceSync(context.Background(), record).FirstErr(); err != nil {
		fmt.Println("failed")
	} else {
		fmt.Println("written")
	}
}
