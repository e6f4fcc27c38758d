#include "tests/sim/instructions.h"

#include <algorithm>

#include "tests/sim/bytes.h"
#include "tests/sim/truth.h"

namespace {

[[noreturn]] void fail(size_t offset, const std::string &what)
{
    throw std::runtime_error("instruction stream, offset " + std::to_string(offset) + ": " + what);
}

class Cursor {
  public:
    Cursor(const std::string &stream, size_t from, size_t end)
        : stream_(&stream), at_(from), end_(end)
    {
    }
    size_t at() const { return at_; }
    size_t left() const { return end_ - at_; }
    uint64_t fixed(size_t count)
    {
        if (left() < count) fail(at_, "it ends too early");
        uint64_t value = 0;
        for (size_t i = 0; i < count; i++)
            value |= static_cast<uint64_t>(static_cast<uint8_t>((*stream_)[at_ + i])) << (8 * i);
        at_ += count;
        return value;
    }
    uint64_t varint()
    {
        if (left() == 0) fail(at_, "an integer is missing");
        uint8_t first = static_cast<uint8_t>((*stream_)[at_]);
        if (first == 0) {
            at_++;
            return fixed(8);
        }
        unsigned count = static_cast<unsigned>(__builtin_ctz(first)) + 1;
        return fixed(count) >> count;
    }
    std::string text(size_t count)
    {
        if (left() < count) fail(at_, "it ends too early");
        at_ += count;
        return stream_->substr(at_ - count, count);
    }
    Cursor part(size_t count)
    {
        if (left() < count) fail(at_, "a column is longer than the rest");
        at_ += count;
        return Cursor(*stream_, at_ - count, at_);
    }

  private:
    const std::string *stream_;
    size_t at_, end_;
};

class Decoder {
  public:
    explicit Decoder(const std::string &stream) : stream_(stream), in_(stream, 0, stream.size()) {}

    Instructions run()
    {
        header();
        while (block()) {}
        if (in_.left() != 0) fail(in_.at(), "something follows the end block");
        return std::move(out_);
    }

  private:
    const std::string &stream_;
    Cursor in_;
    Instructions out_;
    std::vector<uint32_t> order_;
    std::vector<bool> is_live_;
    std::vector<uint64_t> sizes_; /* by register */
    uint64_t bytes_ = 0, peak_ = 0;
    uint32_t lane_ = 0, ticks_ = 0;
    Instruction usage_; /* of the next tick */
    std::vector<uint64_t> touched_;
    uint64_t statistics_[4] = {0, 0, 0, 0};

    void header()
    {
        if (in_.text(8) != "MTAPEINS") fail(0, "magic");
        if (in_.fixed(2) != 4) fail(8, "major version");
        in_.fixed(2);
        uint64_t metadata = in_.fixed(4);
        if (metadata > 65536) fail(12, "metadata");
        out_.features = in_.fixed(8);
        if (out_.features > 15) fail(16, "feature bits");
        out_.info = in_.fixed(8);
        uint64_t sum = in_.fixed(4);
        std::string text = in_.text(metadata);
        if (sum != bytes::checksum(stream_.substr(0, 32) + text)) fail(32, "checksum");
        for (size_t from = 0; from < text.size();) {
            size_t newline = text.find('\n', from), equals = text.find('=', from);
            if (newline == std::string::npos || equals > newline) fail(36 + from, "metadata");
            out_.metadata[text.substr(from, equals - from)] =
                text.substr(equals + 1, newline - equals - 1);
            from = newline + 1;
        }
    }

    bool block()
    {
        size_t start = in_.at();
        std::string magic = in_.text(4);
        bool defines = magic == "MTBS" && (out_.features & 2) != 0;
        /* INSTRUCTIONS.md 4.7, 4.8: no calls of the allocator. */
        bool maps = (magic == "MTBM" || magic == "MTBR") && (out_.features & 8) != 0;
        if (magic != "MTBI" && !defines && !maps) fail(start, "block magic");
        uint64_t size = in_.fixed(4), count = in_.fixed(4), sum = in_.fixed(4);
        if (size > 1048576 || count > 16384) fail(start, "limits of a block");
        Cursor payload = in_.part(size);
        if (sum != bytes::checksum(stream_.substr(start, 12) + stream_.substr(start + 16, size)))
            fail(start, "checksum");
        if (maps) {
            passed(payload, count, magic == "MTBR");
            return true;
        }
        if (defines) {
            while (count-- > 0)
                definition(payload);
            if (payload.left() != 0) fail(payload.at(), "definitions are not used up");
            return true;
        }
        if (count == 0) {
            end(payload);
            return false;
        }
        instructions(payload, count);
        return true;
    }

    /* INSTRUCTIONS.md 4.7, 4.8. */
    void passed(Cursor &in, uint64_t count, bool is_residency)
    {
        uint64_t latest = 0;
        if (count == 0) fail(in.at(), "a block of nothing");
        for (; count > 0; count--) {
            Passed one;
            one.is_residency = is_residency;
            one.window = ticks_;
            if (is_residency) {
                one.name = in.text(in.left());
            } else {
                for (int i = 0; i < 7; i++)
                    one.numbers.push_back(in.varint());
                latest += (one.numbers[2] >> 1) ^ (0 - (one.numbers[2] & 1));
                one.numbers[2] = latest;
                for (int i = (one.numbers[0] & 128) != 0 ? 2 : 0; i > 0; i--)
                    one.numbers.push_back(in.varint());
                for (int i = (one.numbers[0] & 64) != 0 ? 4 : 0; i > 0; i--)
                    one.numbers.push_back(in.varint());
                if ((one.numbers[0] & 64) != 0) one.name = in.text(one.numbers.back());
            }
            out_.passed.push_back(one);
        }
        if (in.left() != 0) fail(in.at(), "records are not used up");
    }

    /* INSTRUCTIONS.md 4.6; of texts and modules there are just those of the simulator. */
    void definition(Cursor &in)
    {
        uint64_t head = in.varint(), what = head % 8, count = head / 8, first = in.varint();
        if (what == 1) {
            uint64_t start = in.varint(), bytes = in.varint();
            if (first != 1 || start != 0x7f0000000000 || bytes != 0x100000 ||
                in.varint() != start + 4096)
                fail(in.at(), "another module");
        } else if (what == 3) {
            uint64_t length = in.varint();
            if (in.varint() != 0 || length != 3 || in.text(3) != "/ab") fail(in.at(), "a text");
        } else if (what == 4) {
            uint64_t offset = 0;
            if (in.varint() != 1) fail(in.at(), "a module");
            for (; count > 0; count--, first++) {
                uint64_t coded = in.varint();
                offset += (coded >> 1) ^ (0 - (coded & 1));
                if (!out_.codes.emplace(first, offset).second) fail(in.at(), "a code twice");
            }
        } else if (what == 5) {
            uint64_t parent = in.varint();
            for (; count > 0; count--, parent = first++)
                if (!out_.nodes.emplace(first, std::make_pair(parent, in.varint())).second)
                    fail(in.at(), "a node twice");
        } else {
            fail(in.at(), "a definition");
        }
    }

    void end(Cursor in)
    {
        out_.status = in.varint();
        out_.live = in.varint();
        out_.registers = in.varint();
        out_.threads = in.varint();
        out_.lost = in.varint();
        if (in.varint() != out_.freed_twice) fail(in.at(), "objects freed twice");
        for (uint64_t count = in.varint(); count > 0; count--) {
            uint64_t kind = in.varint();
            if (kind == 0 || kind > 47 || out_.kinds[kind] != 0)
                fail(in.at(), "a kind in the totals");
            out_.kinds[kind] = in.varint();
            if (out_.kinds[kind] == 0) fail(in.at(), "a kind that was not called");
        }
        if (in.left() != 0) fail(in.at(), "the end block has more than it should");
    }

    void instructions(Cursor in, uint64_t count)
    {
        size_t start = in.at();
        uint64_t live_bytes = in.varint(), peak = in.varint(), operand_bytes = in.varint();
        uint64_t address_bytes = (out_.features & 2) != 0 ? in.varint() : UINT64_MAX;
        Cursor opcodes = in.part(count), low = in.part(count), high = in.part(count);
        Cursor operands = in.part(operand_bytes),
               addresses = in.part(std::min<uint64_t>(address_bytes, in.left()));
        Cursor stacks = in.part(in.left());
        uint64_t address = 0;
        peak_ = 0;
        for (uint64_t n = 0; n < count; n++) {
            size_t offset = opcodes.at();
            uint64_t opcode = opcodes.fixed(1), value = low.fixed(1);
            value |= high.fixed(1) << 8;
            if (value == 0xffff) value = operands.varint();
            one(offset, opcode, value, operands, addresses, stacks, address);
        }
        for (const Cursor *column : {&operands, &addresses, &stacks})
            if (column->left() != 0) fail(column->at(), "a column is not used up");
        if (live_bytes != bytes_ || peak != peak_) fail(start, "live bytes");
    }

    void one(size_t offset, uint64_t opcode, uint64_t value, Cursor &operands, Cursor &addresses,
             Cursor &stacks, uint64_t &address)
    {
        Instruction i;
        i.number = opcode & 63;
        i.failed = (opcode & 64) != 0;
        i.unknown = (opcode & 128) != 0;
        i.lane = lane_;
        if (i.number >= 48) {
            if (opcode > kInsStatistic && opcode != kInsTouched)
                fail(offset, "an undefined opcode");
            if (value != 0) fail(offset, "a value");
            other(i, operands);
            return;
        }
        Shape shape = kind_traits[i.number].shape;
        if (shape == kNoShape) fail(offset, "an undefined opcode");
        if ((i.failed && shape != kAllocation && i.number != 18) ||
            (i.unknown && shape != kFree && shape != kRealloc))
            fail(offset, "a flag that is not allowed");
        if ((shape == kHeap || i.unknown) && value != 0) fail(offset, "a value");
        if (kind_traits[i.number].sized) i.size = shape == kAllocation ? value : operands.varint();
        if (kind_traits[i.number].aligned) i.operands[i.count++] = operands.varint();
        if (shape == kHeap) {
            uint64_t numbers = operands.varint();
            if (numbers > 2) fail(offset, "too many numbers");
            while (i.count < numbers)
                i.operands[i.count++] = operands.varint();
        } else {
            registers(i, shape, value, offset);
        }
        bool brings = !i.failed && (shape == kAllocation || shape == kRealloc);
        bool has_stack = shape == kFree ? (out_.features & 4) != 0 : brings;
        if (has_stack && (out_.features & 2) != 0) i.stack = static_cast<uint32_t>(stacks.varint());
        if (brings && (out_.features & 1) != 0) {
            uint64_t coded = addresses.varint();
            address += (coded >> 1) ^ (0 - (coded & 1));
            i.address = address * 8;
        }
        i.touched.swap(touched_);
        out_.all.push_back(i);
    }

    /* INSTRUCTIONS.md 4.5. */
    void registers(Instruction &i, Shape shape, uint64_t position, size_t offset)
    {
        uint64_t &live = out_.live_counted;
        if (shape != kAllocation && !i.unknown) {
            if (position >= live) fail(offset, "a position where no object is");
            uint32_t &at = order_[live - 1 - position];
            i.object = at;
            if (shape != kFree) {
                if (!i.failed) brought(i);
                return;
            }
            bytes_ -= sizes_[i.object];
            std::swap(at, order_[live - 1]);
            is_live_[i.object] = false;
            live--;
        } else if (shape != kFree && !i.failed) {
            if (live == order_.size()) {
                order_.push_back(static_cast<uint32_t>(live));
                is_live_.push_back(false);
                sizes_.push_back(0);
            }
            i.object = order_[live++];
            if (is_live_[i.object]) fail(offset, "a register lives twice");
            is_live_[i.object] = true;
            if (live > out_.most_live) out_.most_live = live;
            sizes_[i.object] = 0;
            brought(i);
        }
    }

    /* INSTRUCTIONS.md 4.3. */
    void brought(const Instruction &i)
    {
        bytes_ += i.size - sizes_[i.object];
        sizes_[i.object] = i.size;
        if (bytes_ > peak_) peak_ = bytes_;
    }

    void other(Instruction &i, Cursor &operands)
    {
        static const uint8_t counts[] = {1, 1, 0, 0, 4, 2, 0, 4, 2};
        size_t offset = operands.at();
        if (i.number == kInsTouched) {
            touched_.push_back(operands.varint());
            touched_.push_back(operands.varint());
            return;
        }
        if (!touched_.empty()) fail(offset, "touched pages without a call");
        while (i.count < counts[i.number - kLane])
            i.operands[i.count++] = operands.varint();
        if (usage_.has_usage && i.number != kInsTick) fail(offset, "a usage without a tick");
        if (i.number == kInsStatistic) {
            if (i.operands[0] >= 4) fail(offset, "a statistic");
            statistics_[i.operands[0]] = i.operands[1];
            return;
        }
        if (i.number == kInsUsage) {
            usage_ = i;
            usage_.has_usage = true;
            return;
        }
        if (i.number == kInsTick) {
            ticks_++;
            if (i.operands[3] != bytes_) fail(offset, "live bytes");
            i.has_usage = usage_.has_usage;
            std::copy(usage_.operands, usage_.operands + 4, i.usage);
            std::copy(statistics_, statistics_ + 4, i.statistics);
            usage_ = Instruction();
        }
        if (i.number == kInsFreedTwice) {
            out_.freed_twice++;
            return;
        }
        if (i.number != kLane) {
            out_.all.push_back(i);
            return;
        }
        if (i.operands[0] > 65535) fail(operands.at(), "a lane");
        lane_ = static_cast<uint32_t>(i.operands[0]);
    }
};

} // namespace

Instructions decode_instructions(const std::string &stream)
{
    return Decoder(stream).run();
}
