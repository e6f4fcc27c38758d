// Computes the same again and again, between timers.
const crypto = require("crypto"), zlib = require("zlib");
function work() { const made = []; for (let i = 0; i < 2000; i++) made.push({number: i, text: "x".repeat(i % 300)});
  return crypto.createHash("sha256").update(zlib.gzipSync(JSON.stringify(made))).digest("hex"); }
const first = work(); let over = false;
process.stdin.on("end", () => { over = true; }).resume();
console.log("ready");
(function again() { if (work() !== first) throw new Error("another result"); if (over) { console.log("done"); process.exit(0); } else setTimeout(again, 3); })();
