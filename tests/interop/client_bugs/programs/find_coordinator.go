// A member joins a group that it may not use. Prints whether this has failed after a long time.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (handler) ConsumeClaim(sarama.ConsumerGroupSession, sarama.ConsumerGroupClaim) error {
	return nil
}

func main() {
	config := sarama.NewConfig()
	config.Version = sarama.V2_1_0_0
	config.Metadata.Retry.Backoff = 10 * time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Backoff = 10 * time.Millisecond
	group, err := sarama.NewConsumerGroup([]string{os.Args[1]}, os.Args[2], config)
	if err != nil {
		panic(err)
	}
	done := make(chan error, 1)
	go func() { done <- group.Consume(context.Background(), []string{os.Args[2]}, handler{}) }()
	select {
	case <-done:
		fmt.Println("refused")
	case <-time.After(20 * time.Second):
		fmt.Println("still tries")
	}
}
