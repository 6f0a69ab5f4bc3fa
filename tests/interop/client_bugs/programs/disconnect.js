// A producer disconnects while it waits for a response that never comes. Prints whether it has disconnected long after
// the request has timed out.
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic] = process.argv.slice(2)
const REQUEST_TIMEOUT = 1000
let sent
const isSent = new Promise(resolve => { sent = resolve })
const kafka = new Kafka({
  brokers: [bootstrap],
  logLevel: logLevel.DEBUG,
  logCreator: () => ({ log }) => { if (log.message.startsWith('Request Produce')) sent() },
  requestTimeout: REQUEST_TIMEOUT,
  enforceRequestTimeout: true,
  retry: { retries: 0 }
})

async function main() {
  const producer = kafka.producer()
  await producer.connect()
  producer.send({ topic, messages: [{ value: 'v' }] }).catch(() => {})
  await isSent
  const late = new Promise(resolve => setTimeout(resolve, 10 * REQUEST_TIMEOUT, 'still disconnecting'))
  console.log(await Promise.race([producer.disconnect().then(() => 'disconnected'), late]))
  process.exit(0)
}
main()
