// Goroutines on small stacks that compute, allocate in Go and in C, and sleep; each result is checked.
package main

/*
#include <stdlib.h>
#include <string.h>
static void *work(int n) { char *p = malloc(n); memset(p, n & 127, n); return p; }
*/
import "C"
import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

var over atomic.Bool
var made atomic.Int64

func deep(n int, s string) string {
	if n == 0 {
		return s
	}
	var a [32]byte
	copy(a[:], s)
	r := deep(n-1, s)
	if string(a[:len(s)]) != s {
		panic("stack")
	}
	return r
}

func worker(i int) {
	want := sha256.Sum256([]byte(strings.Repeat("x", 5000+i)))
	for !over.Load() {
		if sha256.Sum256([]byte(strings.Repeat("x", 5000+i))) != want {
			panic("sum")
		}
		deep(i%50, "hello")
		p := C.work(C.int(100 + i))
		if *(*byte)(p) != byte((100+i)&127) {
			panic("c")
		}
		C.free(p)
		m := map[int]string{}
		for k := 0; k < 100; k++ {
			m[k] = fmt.Sprint(k)
		}
		if m[77] != "77" {
			panic("map")
		}
		made.Add(1)
		if i%3 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func main() {
	runtime.GOMAXPROCS(4)
	for i := 0; i < 100; i++ {
		go worker(i)
	}
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	over.Store(true)
	time.Sleep(50 * time.Millisecond)
	fmt.Println("done", made.Load())
}
