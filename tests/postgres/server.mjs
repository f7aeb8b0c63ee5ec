// PostgreSQL with pgvector on a free port of 127.0.0.1, in memory; prints the port. usage: node server.mjs
import { PGlite } from "@electric-sql/pglite";
import { vector } from "@electric-sql/pglite-pgvector";
import { PGLiteSocketServer } from "@electric-sql/pglite-socket";

// Node.js 18 (Debian 12) has no CustomEvent.
globalThis.CustomEvent ??= class CustomEvent extends Event {
  constructor(type, options) {
    super(type, options);
    this.detail = options?.detail;
  }
};
const database = await PGlite.create({ extensions: { vector } });
const server = new PGLiteSocketServer({ db: database, host: "127.0.0.1", port: 0, maxConnections: 8 });
server.addEventListener("listening", (event) => console.log(event.detail.port));
await server.start();
