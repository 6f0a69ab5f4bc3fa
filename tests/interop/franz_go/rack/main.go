// Reads a topic from its start, in a rack, and prints how many records each broker gave: BOOTSTRAP TOPIC RACK COUNT.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type counter struct {
	mutex  sync.Mutex
	counts map[int32]int
}

func (c *counter) OnFetchBatchRead(from kgo.BrokerMetadata, _ string, _ int32, batch kgo.FetchBatchMetrics) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.counts[from.NodeID] += batch.NumRecords
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	bootstrap, topic, rack := os.Args[1], os.Args[2], os.Args[3]
	wanted, err := strconv.Atoi(os.Args[4])
	check(err)
	given := &counter{counts: map[int32]int{}}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.Rack(rack),
		kgo.WithHooks(given),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	for found := 0; found < wanted; {
		fetches := client.PollFetches(ctx)
		check(fetches.Err())
		found += fetches.NumRecords()
	}
	given.mutex.Lock()
	defer given.mutex.Unlock()
	for broker, count := range given.counts {
		fmt.Println(broker, count)
	}
}
