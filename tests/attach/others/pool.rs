// Threads that park, wait for conditions with a time limit, and hand over maps; each result is checked.
use std::collections::HashMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};
fn main() {
    let over = Arc::new(AtomicBool::new(false));
    let mut all = vec![];
    for i in 0..3 {
        let over = over.clone();
        all.push(thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let begun = Instant::now();
                thread::park_timeout(Duration::from_millis(50));
                let _ = begun;
                let v: Vec<String> = (0..100 + i).map(|n| n.to_string()).collect();
                assert_eq!(v[77], "77");
            }
        }));
    }
    let pair = Arc::new((Mutex::new(0u64), Condvar::new()));
    for _ in 0..2 {
        let (over, pair) = (over.clone(), pair.clone());
        all.push(thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let mut n = pair.0.lock().unwrap();
                *n += 1;
                pair.1.notify_one();
                let (m, _) = pair.1.wait_timeout(n, Duration::from_millis(20)).unwrap();
                drop(m);
            }
        }));
    }
    let (tx, rx) = mpsc::channel::<HashMap<u32, String>>();
    let o = over.clone();
    all.push(thread::spawn(move || {
        let mut k = 0u32;
        while !o.load(Ordering::Relaxed) {
            tx.send((k..k + 50).map(|x| (x, x.to_string())).collect()).unwrap();
            k = k.wrapping_add(1);
            if k % 64 == 0 { thread::sleep(Duration::from_millis(1)); }
        }
    }));
    all.push(thread::spawn(move || {
        let mut k = 0u32;
        while let Ok(m) = rx.recv() { assert_eq!(m[&(k + 7)], (k + 7).to_string()); k = k.wrapping_add(1); }
    }));
    println!("ready");
    let mut s = String::new();
    std::io::stdin().read_to_string(&mut s).unwrap();
    over.store(true, Ordering::Relaxed);
    for t in all { t.join().unwrap(); }
    println!("done");
}
