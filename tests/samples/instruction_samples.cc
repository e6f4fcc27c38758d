/* Instruction streams, right and wrong. */
#include "common/call_kind.h"
#include "tests/samples/instruction_builder.h"
#include "tests/samples/samples.h"
#include "tests/sim/bytes.h"
#include "tests/sim/truth.h"

namespace {

using Register = InstructionBuilder::Register;
constexpr Register kUnknown = InstructionBuilder::kUnknown;

std::string example() /* INSTRUCTIONS.md 5.4 */
{
    InstructionBuilder out;
    out.lane(3);
    Register first = out.allocate(CALL_MALLOC, 24);
    out.allocate(CALL_CALLOC, 300);
    out.free(CALL_FREE, first);
    return out.finish();
}

std::string empty()
{
    InstructionHeader header;
    header.metadata = "";
    return InstructionBuilder(header).finish();
}

void every_realloc(InstructionBuilder &out, int kind, uint64_t *address)
{
    const uint64_t size = static_cast<uint64_t>(kind) * 1000;
    Register object = out.call(CALL_MALLOC, kUnknown, {8, 0, *address += 48, false, 0});
    out.call(kind, object, {size, 0, *address += 48, false, 0});
    out.call(kind, kUnknown, {size, 0, *address += 48, false, 0});
    if (kind != CALL_REALLOC_MOVED) return; /* a failed realloc has that number */
    out.call(kind, object, {size, 0, 0, true, 0});
    out.call(kind, kUnknown, {size, 0, 0, true, 0});
}

/* Every kind of call, failed and unknown ones included. */
void every_call(InstructionBuilder &out, uint64_t *address)
{
    for (int kind = 1; kind < 45; kind++) {
        const uint64_t size = static_cast<uint64_t>(kind) * 1000;
        switch (kind_traits[kind].shape) {
        case kAllocation:
            out.call(kind, kUnknown, {size, 128, *address += 48, false, 0});
            out.call(kind, kUnknown, {size, 128, 0, true, 0});
            break;
        case kHeap:
            out.heap(kind, {});
            out.heap(kind, {5});
            out.heap(kind, {5, UINT64_MAX});
            break;
        case kRealloc: every_realloc(out, kind, address); break;
        default: {
            Register object = out.call(CALL_MALLOC, kUnknown, {8, 0, *address += 48, false, 0});
            out.call(kind, object, {size, 128, 0, false, 0});
            out.call(kind, kUnknown, {size, 128, 0, false, 0});
        }
        }
    }
}

InstructionBuilder everything(bool addresses)
{
    InstructionHeader header;
    header.features = addresses;
    InstructionBuilder out(header);
    uint64_t address = uint64_t{1} << 46;
    out.thread_begin(uint64_t{1} << 32);
    every_call(out, &address);
    out.tick(10000000, 4096, 0);
    out.end_block();
    out.lane(65535);
    every_call(out, &address);
    out.lost(7, 3);
    out.freed_twice();
    out.free(CALL_FREE, kUnknown);
    out.thread_cache_deleted();
    out.thread_end();
    return out;
}

/* Ticks with a usage and without; and one that belongs to none. */
std::string usage()
{
    InstructionBuilder out;
    out.allocate(CALL_MALLOC, 24);
    out.usage({1048576, 7000000, 2000000, 0});
    out.tick(10000000, 4194304, 0);
    out.tick(10000000, 4194304, 65536);
    out.usage({5, 6, 7, 8});
    out.allocate(CALL_MALLOC, 24);
    out.usage({2097152, 12000000, 3000000, 9437184});
    out.tick(10000000, 8388608, 65536);
    return out.finish();
}

/* RSS comes near its peak, and reaches it when most has been freed. */
std::string plateau()
{
    InstructionBuilder out;
    Register first = out.allocate(CALL_MALLOC, 60000);
    out.tick(10000000, 5000000, 100000);
    out.allocate(CALL_MALLOC, 39000);
    out.tick(10000000, 9899999, 100000);
    out.allocate(CALL_MALLOC, 1000);
    out.tick(10000000, 9900000, 100000);
    out.free(CALL_FREE, first);
    out.tick(10000000, 10000000, 100000);
    out.tick(10000000, 10000000, 100000);
    return out.finish();
}

/* The definitions of FORMAT.md 5.8, and more; calls before and behind them. */
std::string stacks(bool addresses, bool of_frees = false)
{
    InstructionHeader header;
    header.features = 2 + addresses + 4 * of_frees;
    InstructionBuilder out(header);
    uint64_t address = uint64_t{1} << 46;
    Register object = out.call(CALL_MALLOC, kUnknown, {24, 0, address, false, 9});
    out.end_block();
    out.define({1, 1, 0x10000, 8192, 0x10000});
    out.define({3, 1, 6, 0}, "/bin/a");
    out.define({4 + 2 * 8, 1, 1, bytes::zigzag(0x100), bytes::zigzag(0x80)});
    out.define({5 + 2 * 8, 8, 0, 2, 1});
    out.define({3 + 8, 1, 3, 0}, std::string("\0\1\2", 3));
    out.define({3 + 2 * 8, 2, 65, 0}, std::string(64, 'f'));
    out.define({3 + 2 * 8, 2, 65, 64}, "\n");
    out.call(CALL_REALLOC_MOVED, object, {25, 0, address, false, 10});
    out.call(CALL_REALLOC_MOVED, object, {25, 0, 0, true, 0});
    out.call(CALL_REALLOC_MOVED, kUnknown, {26, 0, address + 48, false, 1});
    out.call(CALL_FREE, object, {0, 0, 0, false, of_frees ? 9u : 0});
    if (of_frees) out.call(CALL_FREE, kUnknown, {0, 0, 0, false, 10});
    out.call(CALL_MALLOC, kUnknown, {25, 0, 0, true, 0});
    out.call(CALL_MALLOC, kUnknown, {27, 0, address + 96, false, 0});
    out.call(CALL_MALLOC, kUnknown, {28, 0, address + 144, false, (1 << 28) - 1});
    out.end_block();
    out.define({5 + 8, 10, 9, (1 << 28) - 1});
    out.define({4 + 8, 7, 0, bytes::zigzag((int64_t{1} << 59) - 1)});
    out.define({2, 1});
    return out.finish();
}

/* The functions of an interpreter of FORMAT.md 5.8. */
std::string source_code()
{
    InstructionHeader header;
    header.features = 2;
    InstructionBuilder out(header);
    out.define({1, 1, 0x10000, 8192, 0x10000});
    out.define({3 + 3 * 8, 1, 6, 0}, "python");
    out.define({4 + 2 * 8, 1, 1, bytes::zigzag(0x100), bytes::zigzag(0x80)});
    out.define({1, 2, 0, 0, 0});
    out.define({3 + 3 * 8, 2, 6, 0}, "python");
    out.define({3, 2, 4, 0}, "a.py");
    out.define({4 + 8, 3, 2, bytes::zigzag((int64_t{1} << 32) + 2)});
    out.define({3 + 2 * 8, 3, 1, 0}, "f");
    out.define({5 + 3 * 8, 8, 0, 1, 3, 2});
    out.call(CALL_MALLOC, kUnknown, {24, 0, 0, false, 10});
    return out.finish();
}

/* One definition that the document forbids. */
std::string bad_definition(const std::vector<uint64_t> &numbers, const std::string &piece = "")
{
    InstructionHeader header;
    header.features = 2;
    InstructionBuilder out(header);
    out.define(numbers, piece);
    return out.finish();
}

std::string bad_stack()
{
    InstructionHeader header;
    header.features = 2;
    InstructionBuilder out(header);
    out.allocate(CALL_MALLOC, 24, 1 << 28);
    return out.finish();
}

/* Numbers that need all of 64 bits. */
std::string large()
{
    InstructionHeader header;
    header.metadata = "program=large\nstart=1e999\npid=-1\nallocator=glibc 2.36\n";
    InstructionBuilder out(header);
    const uint64_t most = UINT64_MAX;
    out.call(CALL_MALLOC, kUnknown, {most, 0, 0, true, 0});
    out.free(CALL_FREE, out.allocate(CALL_MALLOC, most - 8));
    out.usage({most, most, most, most});
    out.tick(most - 1, most, most);
    return out.finish();
}

std::string minor()
{
    InstructionHeader header;
    header.minor = 3;
    header.info = uint64_t{1} << 63;
    InstructionBuilder out(header);
    out.allocate(CALL_MALLOC, 1);
    return out.finish();
}

std::string bad_feature()
{
    InstructionHeader header;
    header.features = 32;
    return InstructionBuilder(header).finish();
}

/* What a program did to its address space, before, between and behind calls (INSTRUCTIONS.md 4.7,
 * 4.8). */
std::string mappings(const std::string &records, uint64_t count, const std::string &residency)
{
    InstructionHeader header;
    header.features = 8;
    InstructionBuilder out(header);
    out.block(records, count, "MTBM");
    Register object = out.allocate(CALL_MALLOC, 24);
    out.end_block();
    out.block(records, count, "MTBM");
    out.block(residency, 1, "MTBR");
    out.free(CALL_FREE, object);
    out.tick(10000000, 4096, 4096);
    out.end_block();
    out.block(residency, 1, "MTBR");
    return out.finish();
}

std::string good_mappings()
{
    return mappings(mapping_records(), kMappingRecords, residency_areas());
}

/* Which pages of large objects were resident (INSTRUCTIONS.md 5.3); also where it means nothing, and of
 * more than the object has. */
std::string touched()
{
    InstructionBuilder out;
    out.other(60, {0, 1});
    out.other(60, {100, 2});
    Register object = out.allocate(CALL_MALLOC, 1000000);
    out.other(60, {245, 0});
    out.allocate(CALL_CALLOC, 1000000);
    out.other(60, {1, 1});
    out.allocate(CALL_MALLOC, 24);
    out.other(60, {2, UINT64_MAX});
    out.realloc(CALL_REALLOC_MOVED, object, 300000);
    out.other(60, {3, 3});
    out.tick(10000000, 4096, 4096);
    out.other(60, {UINT64_MAX, 1});
    out.allocate(CALL_NEW, 262144);
    return out.finish();
}

/* A free and a realloc of an object that had been freed already (INSTRUCTIONS.md 5.3). */
std::string freed_twice()
{
    InstructionBuilder out;
    out.free(CALL_FREE, out.allocate(CALL_MALLOC, 10));
    out.freed_twice();
    out.free(CALL_DELETE_SIZED, kUnknown, 10);
    out.freed_twice();
    out.realloc(CALL_REALLOC_MOVED, kUnknown, 20);
    return out.finish();
}

/* What was there before: objects of two threads, and what has worn the heap (INSTRUCTIONS.md 4.9). */
InstructionBuilder base_begin()
{
    InstructionHeader header;
    header.features = 16;
    InstructionBuilder out(header);
    out.thread_begin(4711);
    out.allocate(CALL_MALLOC, 100);
    Register dead = out.allocate(CALL_NEW, 5000);
    out.tick(10000000, 0, 0);
    out.lane(1);
    out.thread_begin(4712);
    out.realloc(CALL_REALLOC_MOVED, out.allocate(CALL_REALLOC_NULL, 64), 128);
    out.free(CALL_DELETE, dead);
    out.usage({5, 6, 7, 0});
    out.tick(3000000000, 1048576, 65536);
    return out;
}

std::string base()
{
    InstructionBuilder out = base_begin();
    out.base_end();
    out.free(CALL_FREE, 0);
    out.tick(10000000, 1048576, 65536);
    out.lane(0);
    out.allocate(CALL_MALLOC, 50);
    out.tick(10000000, 2097152, 65536);
    return out.finish();
}

std::string bad_base(const std::function<void(InstructionBuilder &)> &spoil)
{
    InstructionBuilder out = base_begin();
    spoil(out);
    return out.finish();
}

/* The free of an object that a recorder missed (INSTRUCTIONS.md 5.3). */
std::string missed_free()
{
    InstructionBuilder out;
    Register object = out.allocate(CALL_MALLOC, 10);
    out.other(58, {});
    out.free(CALL_FREE, object);
    out.allocate(CALL_MALLOC, 20);
    return out.finish();
}

/* Values on both sides of what fits into the columns (INSTRUCTIONS.md 4.4). */
std::string values()
{
    InstructionBuilder out;
    for (uint64_t size : {uint64_t{0}, uint64_t{254}, uint64_t{255}, uint64_t{256}, uint64_t{65534},
                          uint64_t{65535}, uint64_t{65536}, uint64_t{UINT32_MAX} - 1,
                          uint64_t{UINT32_MAX}, uint64_t{1} << 40})
        out.allocate(CALL_MALLOC, size);
    out.end_block();
    std::vector<Register> objects;
    for (uint64_t i = 0; i < 300; i++)
        objects.push_back(out.allocate(CALL_MALLOC, i == 7 ? 65535 : i == 20 ? 70000 : 250 + i));
    out.end_block();
    for (size_t i : {3, 290, 45, 44, 299})
        out.free(CALL_FREE, objects[i]);
    out.realloc(CALL_REALLOC_MOVED, objects[100], 1);
    return out.finish();
}

/* Columns of one thread_end that do not match (INSTRUCTIONS.md 4.3). */
std::string bad_columns(uint64_t operand_bytes, const std::string &columns)
{
    InstructionBuilder out;
    std::string head;
    for (uint64_t number : {uint64_t{0}, uint64_t{0}, operand_bytes})
        bytes::put_varint(head, number);
    out.block(head + columns, 1);
    return out.finish();
}

/* Wrong in one thing behind a malloc, or without one. */
std::string bad(bool after_malloc, const std::function<void(InstructionBuilder &)> &spoil)
{
    InstructionBuilder out;
    if (after_malloc) out.allocate(CALL_MALLOC, 24);
    spoil(out);
    return out.finish();
}

} // namespace

void add_instruction_samples(Samples *samples)
{
    using Out = InstructionBuilder;
    const Sample all[] = {
        {"example", example},
        {"empty", empty},
        {"everything", [] { return everything(false).finish(); }},
        {"addresses", [] { return everything(true).finish(); }},
        {"cut", [] { return everything(false).cut(); }},
        {"minor", minor},
        {"bad_number", [] { return bad(false, [](Out &out) { out.other(56, {}); }); }},
        {"freed_twice", freed_twice},
        {"missed_free", missed_free},
        {"usage", usage},
        {"base", base},
        {"bad_base_end", [] { return bad(true, [](Out &out) { out.base_end(); }); }},
        {"bad_base_none", [] { return bad_base([](Out &) {}); }},
        {"bad_base_twice",
         [] {
             return bad_base([](Out &out) {
                 out.base_end();
                 out.base_end();
             });
         }},
        {"bad_base_middle",
         [] {
             return bad_base([](Out &out) {
                 out.other(59, {});
                 out.allocate(CALL_MALLOC, 8);
             });
         }},
        {"plateau", plateau},
        {"large", large},
        {"bad_register", [] { return bad(false, [](Out &out) { out.free(CALL_FREE, 0); }); }},
        {"bad_feature", bad_feature},
        {"mappings", good_mappings},
        {"touched", touched},
        {"bad_mappings_count",
         [] { return mappings(mapping_records(), kMappingRecords - 1, residency_areas()); }},
        {"bad_residency_rest",
         [] { return mappings(mapping_records(), kMappingRecords, residency_areas() + '\1'); }},
        {"bad_value", [] { return bad(false, [](Out &out) { out.other(50, {}, 1); }); }},
        {"bad_live_bytes", [] { return bad(true, [](Out &out) { out.misstate_live_bytes(); }); }},
        {"bad_peak", [] { return bad(true, [](Out &out) { out.misstate_peak(); }); }},
        {"bad_tick", [] { return bad(true, [](Out &out) {
                              out.other(52, {1, 2, 3, 25});
                          }); }},
        {"values", values},
        {"stacks", [] { return stacks(false); }},
        {"stacks_addresses", [] { return stacks(true); }},
        {"free_stacks", [] { return stacks(false, true); }},
        {"source_code", source_code},
        {"bad_stack", bad_stack},
        {"bad_definition_block", [] { return bad(false, [](Out &out) {
                                          out.define({2, 1});
                                      }); }},
        {"bad_definition_what",
         [] {
             return bad_definition({6, 1});
         }},
        {"bad_definition_module",
         [] {
             return bad_definition({1, 65536, 0, 0, 0});
         }},
        {"bad_definition_short",
         [] {
             return bad_definition({1, 1, 0, 0});
         }},
        {"bad_definition_rest",
         [] {
             return bad_definition({2, 1}, "x");
         }},
        {"bad_definition_piece",
         [] {
             return bad_definition({3, 1, 2, 0}, "x");
         }},
        {"bad_definition_codes",
         [] {
             return bad_definition({4 + 8, 1, 1});
         }},
        {"bad_definition_parent",
         [] {
             return bad_definition({5 + 8, 9, 9, 1});
         }},
        {"bad_short", [] { return bad_columns(0, std::string("\x32\0", 2)); }},
        {"bad_rest", [] { return bad_columns(0, std::string("\x32\0\0x", 4)); }},
        {"bad_operands", [] { return bad_columns(1, std::string("\x32\0\0\x01", 4)); }},
        {"bad_live", [] { return bad(false, [](Out &out) { out.misstate_live(); }); }}};
    for (const Sample &sample : all)
        samples->push_back({"instructions_" + sample.name, sample.write});
}
