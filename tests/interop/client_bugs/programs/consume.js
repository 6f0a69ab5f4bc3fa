// A consumer reads a record. Prints it, or the error with which the consumer stops for ever.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const retry = { initialRetryTime: 10, retries: 3 }
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry })

function end(told) {
  console.log(told)
  process.exit(0)
}

async function main() {
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, messages: [{ value: 'v' }] })
  await producer.disconnect()
  const consumer = kafka.consumer({ groupId: topic })
  consumer.on(consumer.events.CRASH, ({ payload }) => {
    if (!payload.restart) end(`stopped: ${payload.error.type}`)
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => end(`read ${message.value}`) })
}
main()
