// A producer fails to write to one topic, and then writes to another. Prints the outcome of the second.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const retry = { initialRetryTime: 10, retries: 2 }
const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING, retry })

async function main() {
  const producer = kafka.producer()
  await producer.connect()
  const write = async topic => {
    try {
      const [{ baseOffset }] = await producer.send({ topic, messages: [{ value: 'v' }] })
      return `written at ${baseOffset}`
    } catch (error) {
      return 'refused'
    }
  }
  if (await write('secret') !== 'refused') throw new Error('the first topic was written')
  console.log(await write(topic))
  await producer.disconnect()
}
main()
