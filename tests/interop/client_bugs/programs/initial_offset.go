// An offset manager begins with a partition. Prints the offset, or that it has failed.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V2_1_0_0
	config.Metadata.Retry.Backoff = 10 * time.Millisecond
	client, err := sarama.NewClient([]string{os.Args[1]}, config)
	if err != nil {
		panic(err)
	}
	manager, err := sarama.NewOffsetManagerFromClient(os.Args[2], client)
	if err != nil {
		panic(err)
	}
	partition, err := manager.ManagePartition(os.Args[2], 0)
	if err != nil {
		fmt.Println("failed")
		return
	}
	offset, _ := partition.NextOffset()
	fmt.Println("next offset", offset)
}
