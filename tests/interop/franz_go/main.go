// A record there and back by franz-go, logged in as the arguments say: BOOTSTRAP TOPIC WAY CA [NAME PASSWORD | TOKEN].
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(way string, words []string) sasl.Mechanism {
	switch way {
	case "PLAIN":
		return plain.Auth{User: words[0], Pass: words[1]}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: words[0], Pass: words[1]}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: words[0], Pass: words[1]}.AsSha512Mechanism()
	case "token":
		return scram.Auth{User: words[0], Pass: words[1], IsToken: true}.AsSha512Mechanism()
	default:
		return oauth.Auth{Token: words[0]}.AsMechanism()
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	bootstrap, topic, way := os.Args[1], os.Args[2], os.Args[3]
	pem, err := os.ReadFile(os.Args[4])
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool}),
		kgo.SASL(mechanism(way, os.Args[5:])),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	)
	check(err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	check(client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("hello")}).FirstErr())
	fetches := client.PollFetches(ctx)
	check(fetches.Err())
	fmt.Println(string(fetches.Records()[0].Value))
}
