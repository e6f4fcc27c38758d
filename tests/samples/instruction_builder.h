/* instruction_builder - instruction streams that tests write by hand, from INSTRUCTIONS.md alone.
 * It follows registers and live bytes, so a stream is right unless the test makes it wrong. */
#ifndef TESTS_SAMPLES_INSTRUCTION_BUILDER_H
#define TESTS_SAMPLES_INSTRUCTION_BUILDER_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

struct InstructionHeader {
    std::string metadata =
        "run=000102030405060708090a0b0c0d0e0f\nprogram=/usr/bin/sample\npid=4711\n"
        "allocator=gperftools 2.10\nstart=1700000000\n";
    uint64_t features = 0, info = 0;
    unsigned minor = 0;
};

class InstructionBuilder {
  public:
    using Register = int64_t;
    static constexpr Register kUnknown = -1;

    /* The operands of a call that it has by its shape. */
    struct Call {
        uint64_t size = 0, alignment = 0, address = 0;
        bool failed = false;
        uint64_t stack = 0;
    };

    explicit InstructionBuilder(const InstructionHeader &header = InstructionHeader());

    /* Returns the register of the object that began, or was changed. */
    Register call(int kind, Register object, const Call &call);
    Register allocate(int kind, uint64_t size, uint64_t stack = 0)
    {
        return call(kind, kUnknown, {size, 0, 0, false, stack});
    }
    Register realloc(int kind, Register object, uint64_t size)
    {
        return call(kind, object, {size, 0, 0, false, 0});
    }
    void free(int kind, Register object, uint64_t size = 0)
    {
        call(kind, object, {size, 0, 0, false, 0});
    }
    void heap(int kind, const std::vector<uint64_t> &numbers);

    void lane(uint64_t number) { other(48, {number}); }
    void thread_begin(uint64_t id);
    void thread_end() { other(50, {}); }
    void thread_cache_deleted() { other(51, {}); }
    void tick(uint64_t nanoseconds, uint64_t rss, uint64_t heap)
    {
        other(52, {nanoseconds, rss, heap, live_bytes_});
    }
    void usage(const std::vector<uint64_t> &numbers) { other(55, numbers); }
    void lost(uint64_t lane, uint64_t events);
    void freed_twice();
    void base_end(); /* INSTRUCTIONS.md 4.9; the header has feature bit 4 */

    /* What INSTRUCTIONS.md may forbid. */
    void other(int number, const std::vector<uint64_t> &operands, uint64_t value = 0);
    void misstate_live_bytes() { live_bytes_++; }
    void misstate_peak() { peak_++; }
    void misstate_live() { live_misstated_++; }

    void end_block();
    /* One block with any content. */
    void block(const std::string &payload, uint64_t count, const char *magic = "MTBI");
    /* INSTRUCTIONS.md 4.6: varints, and for a piece of text its bytes. */
    void define(const std::vector<uint64_t> &numbers, const std::string &piece = "");
    /* The stream without an end, and with one. */
    std::string cut();
    std::string finish();

  private:
    void opcode(int byte, uint64_t value);
    void count_bytes(Register object, uint64_t size);
    Register allocation();
    uint64_t position(Register object) const;
    void end_object(Register object);

    bool addresses_, stacks_, free_stacks_;
    std::string stream_, opcodes_, low_, above_, operands_, places_, nodes_;
    std::vector<Register> order_;
    std::map<Register, uint64_t> sizes_;
    std::map<int, uint64_t> counts_;
    uint64_t live_ = 0, high_ = 0, live_bytes_ = 0, peak_ = 0, threads_ = 0, lost_ = 0, twice_ = 0;
    uint64_t live_misstated_ = 0, address_ = 0;
};

#endif
