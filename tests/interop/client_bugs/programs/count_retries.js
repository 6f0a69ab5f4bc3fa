// A producer with two retries is refused each time. Prints how many requests it has sent.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const retry = { initialRetryTime: 1, maxRetryTime: 5, retries: 2 }
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry })

async function main() {
  let requests = 0
  const producer = kafka.producer()
  producer.on(producer.events.REQUEST, ({ payload }) => {
    if (payload.apiName === 'Produce') requests++
  })
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'v' }] }).catch(() => {})
  console.log(`${requests} requests`)
  await producer.disconnect()
}
main()
