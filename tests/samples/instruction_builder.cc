#include "tests/samples/instruction_builder.h"

#include <algorithm>

#include "tests/sim/bytes.h"
#include "tests/sim/truth.h"

using bytes::put;
using bytes::put_varint;

InstructionBuilder::InstructionBuilder(const InstructionHeader &header)
    : addresses_((header.features & 1) != 0), stacks_((header.features & 2) != 0),
      free_stacks_((header.features & 4) != 0), stream_("MTAPEINS")
{
    put(stream_, 4, 2);
    put(stream_, header.minor, 2);
    put(stream_, header.metadata.size(), 4);
    put(stream_, header.features, 8);
    put(stream_, header.info, 8);
    put(stream_, bytes::checksum(stream_ + header.metadata), 4);
    stream_ += header.metadata;
}

InstructionBuilder::Register InstructionBuilder::call(int kind, Register object, const Call &call)
{
    const KindTraits &traits = kind_traits[kind];
    bool allocates = traits.shape == kAllocation, frees = traits.shape == kFree;
    bool unknown = !allocates && object == kUnknown;
    counts_[kind]++;
    opcode(kind | (call.failed ? 0x40 : 0) | (unknown ? 0x80 : 0),
           allocates ? call.size : position(object));
    if (traits.sized && !allocates) put_varint(operands_, call.size);
    if (traits.aligned) put_varint(operands_, call.alignment);
    if (frees) {
        end_object(object);
        if (free_stacks_) put_varint(nodes_, call.stack);
        return kUnknown;
    }
    if (addresses_ && call.address != 0) {
        put_varint(places_, bytes::zigzag(static_cast<int64_t>(call.address - address_) / 8));
        address_ = call.address;
    }
    if (call.failed) return kUnknown;
    if (stacks_) put_varint(nodes_, call.stack);
    Register begins = allocates || unknown ? allocation() : object;
    count_bytes(begins, call.size);
    return begins;
}

void InstructionBuilder::heap(int kind, const std::vector<uint64_t> &numbers)
{
    counts_[kind]++;
    opcode(kind, 0);
    put_varint(operands_, numbers.size());
    for (uint64_t number : numbers)
        put_varint(operands_, number);
}

void InstructionBuilder::thread_begin(uint64_t id)
{
    threads_++;
    other(49, {id});
}

void InstructionBuilder::lost(uint64_t lane, uint64_t events)
{
    lost_ += events;
    other(53, {lane, events});
}

void InstructionBuilder::freed_twice()
{
    twice_++;
    other(54, {});
}

void InstructionBuilder::base_end()
{
    other(59, {});
    end_block();
    counts_.clear();
    twice_ = 0;
}

void InstructionBuilder::other(int number, const std::vector<uint64_t> &operands, uint64_t value)
{
    opcode(number, value);
    for (uint64_t operand : operands)
        put_varint(operands_, operand);
}

void InstructionBuilder::end_block()
{
    if (opcodes_.empty()) return;
    std::string head;
    for (uint64_t number : {live_bytes_, peak_, uint64_t{operands_.size()}})
        put_varint(head, number);
    if (stacks_) put_varint(head, places_.size());
    block(head + opcodes_ + low_ + above_ + operands_ + places_ + nodes_, opcodes_.size());
    for (std::string *column : {&opcodes_, &low_, &above_, &operands_, &places_, &nodes_})
        column->clear();
    address_ = peak_ = 0;
}

void InstructionBuilder::define(const std::vector<uint64_t> &numbers, const std::string &piece)
{
    std::string payload;
    for (uint64_t number : numbers)
        put_varint(payload, number);
    block(payload + piece, 1, "MTBS");
}

void InstructionBuilder::block(const std::string &payload, uint64_t count, const char *magic)
{
    std::string head = magic;
    put(head, payload.size(), 4);
    put(head, count, 4);
    put(head, bytes::checksum(head + payload), 4);
    stream_ += head + payload;
}

std::string InstructionBuilder::cut()
{
    end_block();
    return stream_;
}

std::string InstructionBuilder::finish()
{
    end_block();
    std::string payload;
    for (uint64_t value : {uint64_t{0}, live_ + live_misstated_, high_, threads_, lost_, twice_,
                           uint64_t{counts_.size()}})
        put_varint(payload, value);
    for (const auto &[kind, count] : counts_) {
        put_varint(payload, static_cast<uint64_t>(kind));
        put_varint(payload, count);
    }
    block(payload, 0);
    return stream_;
}

/* INSTRUCTIONS.md 4.4: a value that does not fit is an operand. */
void InstructionBuilder::opcode(int byte, uint64_t value)
{
    uint64_t coded = std::min<uint64_t>(value, 0xffff);
    put(opcodes_, static_cast<uint64_t>(byte), 1);
    put(low_, coded, 1);
    put(above_, coded >> 8, 1);
    if (coded == 0xffff) put_varint(operands_, value);
}

void InstructionBuilder::count_bytes(Register object, uint64_t size)
{
    live_bytes_ += size - sizes_[object];
    sizes_[object] = size;
    peak_ = std::max(peak_, live_bytes_);
}

InstructionBuilder::Register InstructionBuilder::allocation()
{
    if (live_ == order_.size()) order_.push_back(static_cast<Register>(live_));
    high_ = std::max(high_, ++live_);
    return order_[live_ - 1];
}

/* INSTRUCTIONS.md 4.5; of an object that is not there, 0. */
uint64_t InstructionBuilder::position(Register object) const
{
    auto end = order_.begin() + static_cast<int64_t>(live_);
    auto found = std::find(order_.begin(), end, object);
    return found == end ? 0 : static_cast<uint64_t>(end - found) - 1;
}

void InstructionBuilder::end_object(Register object)
{
    if (object == kUnknown) return;
    live_bytes_ -= sizes_[object];
    sizes_.erase(object);
    live_--;
    auto found = std::find(order_.begin(), order_.end(), object);
    if (found != order_.end()) std::iter_swap(found, order_.begin() + static_cast<int64_t>(live_));
}
