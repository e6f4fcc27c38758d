# Computes the same again and again, in three threads, two of which run programs.
import select, sys, json, hashlib, threading, subprocess
def work():
    made = [{"number": i, "text": "x" * (i % 300), "list": list(range(i % 50))} for i in range(2000)]
    return hashlib.sha256(json.dumps(made).encode()).hexdigest()
first = work()
def other():
    while True:
        if work() != first: sys.stderr.write("another result\n"); import os; os._exit(1)
        subprocess.run(["true"], check=True)
for _ in range(2): threading.Thread(target=other, daemon=True).start()
print("ready", flush=True)
while not select.select([0], [], [], 0)[0]:
    if work() != first: raise SystemExit("another result")
print("done", flush=True)
import os; os._exit(0)
