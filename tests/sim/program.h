/* program - threads that allocate, free, reallocate and hand objects to each other.
 *
 *   step()   one thread does one step of a call:
 *
 *              Allocate -> [Fetch -> [PageHeap -> Carve]] -> Record -> Deliver
 *              Record -> Put -> [Release -> [DeleteSpan ...]]
 *
 * Every step happens in one go and in the true order; between two steps any other thread may run,
 * also in the middle of a call (option `preempt`), for long (`stall`). What a thread has still to
 * do is on its stack of steps.
 *
 * Ways of an object: within its thread, through a pool or a queue of all threads, to one other
 * thread, on to a third, back and forth between two who free and make it at one address, left
 * behind by a thread that ended. */
#ifndef TESTS_SIM_PROGRAM_H
#define TESTS_SIM_PROGRAM_H

#include <deque>
#include <vector>

#include "tests/sim/allocator.h"
#include "tests/sim/options.h"
#include "tests/sim/random.h"
#include "tests/sim/recorder.h"
#include "tests/sim/truth.h"

class Program {
  public:
    Program(const Options &options, Random &random, Recorder &recorder, Truth &truth);

    /* Runs all of it, and finishes the stream. */
    void run();

  private:
    enum class Step : uint8_t {
        CreateCache,
        Allocate,      /* of class a */
        AllocateOne,   /* of class a, past the cache */
        Fetch,         /* of class a */
        FetchMore,     /* before there is none */
        PageHeap,      /* a span for class a */
        Carve,         /* span b for class a */
        AllocateLarge, /* a: bytes */
        RecordAllocation,
        RecordFailure,
        RecordFree, /* of object a */
        Serve,      /* makes the next ball, for thread a */
        RecordRealloc,
        GiveUp,     /* the place of what a realloc of an opaque allocator ends */
        Resize,     /* the block of what is reallocated in place */
        Put,        /* place: into the cache, or where it belongs */
        Release,    /* b places of class a */
        DeleteSpan, /* a */
        SequenceHeap,
        Heap, /* a heap-wide call of kind a */
        DeleteCache,
        EndThread
    };
    struct Todo {
        Step step;
        uint64_t a = 0, b = 0;
    };
    /* Where an object goes once it is there. */
    enum class Way : uint8_t { Slot, Pool, Queue, Mail, PingPong, Relay };
    struct Call {
        Record record;
        Place place; /* of the object that begins */
        uint32_t size_class = 0;
        bool cached = false; /* it came from the cache */
        Place old;           /* of the one that ends */
        uint32_t old_class = 0;
        Way way = Way::Slot;
        uint32_t to = 0; /* thread, or slot */
    };
    struct Relayed {
        ObjectId object;
        uint32_t hops;
    };
    struct Thread {
        bool lives = false, begun = false, has_cache = false, allocating = false, ending = false;
        uint64_t id = 0;
        uint64_t stalled_until = 0; /* steps of the program */
        ThreadCache cache;
        std::vector<Todo> todo; /* the last one is next */
        Call call;
        std::vector<ObjectId> slots;
        std::deque<ObjectId> mail;
        std::deque<Relayed> relayed;
        ObjectId ball = 0; /* of ping-pong */
    };

    void step();
    void choose_thread();
    void maybe_cut();
    void maybe_record();
    void make_tick();
    void stop();

    /* What a thread decides to do. */
    void act(uint32_t number);
    void act_own(uint32_t number);
    void act_pool(uint32_t number);
    void act_queue(Thread &t);
    void act_mail(uint32_t number);
    void act_pingpong(uint32_t number);
    void act_relay(uint32_t number);
    void act_seldom(uint32_t number);
    void begin_thread(uint32_t number);
    void end_thread(Thread &t);
    ObjectId own_object(Thread &t);

    /* Calls: they put steps on the stack. */
    void allocate(Thread &t, Way way, uint32_t to, uint64_t size = UINT64_MAX);
    void release(Thread &t, ObjectId object);
    void reallocate(uint32_t number, ObjectId object, Way way, uint32_t to);
    void fail(Thread &t);
    void heap_call(Thread &t);
    uint64_t random_size();
    uint8_t random_kind(Shape shape);
    void later(Thread &t, Step step, uint64_t a = 0, uint64_t b = 0)
    {
        t.todo.push_back({step, a, b});
    }
    void later_allocate(Thread &t, uint64_t size);

    /* Steps. */
    void perform(uint32_t number, const Todo &todo);
    void perform_allocate(Thread &t, uint32_t size_class);
    void perform_fetch(uint32_t number, uint32_t size_class);
    void perform_allocate_one(uint32_t number, uint32_t size_class);
    void perform_fetch_more(uint32_t number, uint32_t size_class);
    bool take_batch(uint32_t number, uint32_t size_class);
    void take(Thread &t, uint32_t size_class);
    void maybe_tell_cache(uint32_t number);
    void perform_heap(uint32_t number, uint32_t kind);
    void perform_end_thread(uint32_t number);
    void perform_put(uint32_t number);
    void perform_give_up(uint32_t number);
    void perform_resize(Thread &t);
    void perform_release(uint32_t number, uint32_t size_class, uint64_t count);
    void delete_cache(uint32_t number);
    void allocated(uint32_t number);
    void dies(uint32_t number);
    void deliver(uint32_t number, ObjectId object);
    void sequence(uint32_t number, uint32_t structure);
    void make_known(uint32_t number);
    void record(uint32_t number, const Record &record);
    uint32_t other_thread(uint32_t number);

    const Options &options_;
    Random &random_;
    Recorder &recorder_;
    Truth &truth_;
    Allocator allocator_;
    std::vector<Thread> threads_; /* by lane */
    std::vector<ObjectId> pool_;
    std::deque<ObjectId> queue_;
    std::vector<uint64_t> old_ids_; /* of threads that ended */
    uint64_t next_id_ = 1000;
    uint32_t current_ = 0;
    uint64_t turn_ = 0; /* steps that the current thread has left */
    uint64_t steps_ = 0, next_tick_ = 0, nanoseconds_ = 0, live_ = 0;
};

#endif
