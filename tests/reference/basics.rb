# basics - what both formats share: integers (FORMAT.md 2.2, INSTRUCTIONS.md 2.2) and the list of
# calls.
#
# The decoders here are the second opinion on the C code: they follow the documents section by
# section, take whole streams into memory, and share nothing with the programs but the documents and
# the list of calls in common/call_kind.h, which both documents name. Checksums are not looked at:
# Ruby has no XXH3.

class BadStream < StandardError; end

# Stops at data that the document forbids.
def refuse(offset, text)
  raise BadStream, format('offset 0x%<offset>x: %<text>s', offset:, text:)
end

# The calls of common/call_kind.h, by number.
Call = Struct.new(:number, :name, :shape)
CALLS = File.read(File.join(__dir__, '../../common/call_kind.h'))
            .scan(/X\((\d+), \w+, "(\w+)", (\w+)\)/)
            .to_h { |number, name, shape| [number.to_i, Call.new(number.to_i, name, shape.to_sym)] }
            .freeze
raise 'common/call_kind.h lists no calls' if CALLS.empty?

ALLOCATIONS = %i[ALLOCATION ALLOCATION_ALIGNED].freeze
FREES = %i[FREE FREE_SIZED FREE_ALIGNED FREE_SIZED_ALIGNED].freeze
WITH_SIZE = %i[ALLOCATION ALLOCATION_ALIGNED REALLOC FREE_SIZED FREE_SIZED_ALIGNED].freeze
WITH_ALIGNMENT = %i[ALLOCATION_ALIGNED FREE_ALIGNED FREE_SIZED_ALIGNED].freeze

# Bytes that are read front to back. `offset` is the place of the first one in the stream.
class Bytes
  attr_reader :position

  def initialize(bytes, offset)
    @bytes = bytes
    @offset = offset
    @position = 0
  end

  def offset = @offset + @position
  def left = @bytes.bytesize - @position
  def end? = left.zero?

  def take(count)
    refuse(offset, "#{count} bytes wanted, #{left} left") if count > left
    @position += count
    @bytes.byteslice(@position - count, count)
  end

  # A part of its own that knows its place.
  def part(count)
    start = offset
    Bytes.new(take(count), start)
  end

  def byte = take(1).getbyte(0)
  def u16 = take(2).unpack1('v')
  def u32 = take(4).unpack1('V')
  def u64 = take(8).unpack1('Q<')

  # The number of trailing zero bits of the first byte plus one is the length; nine bytes at most.
  def varint
    first = byte
    return take(8).unpack1('Q<') if first.zero?

    length = 1
    length += 1 while first[length - 1].zero?
    value = first
    take(length - 1).each_byte.with_index { |byte, index| value |= byte << (8 * (index + 1)) }
    value >> length
  end

  # A count, and so many pairs.
  def pairs
    count = varint
    refuse(offset, "#{count} pairs in #{left} bytes") if count > left
    Array.new(count) { [varint, varint] }
  end

  # zigzag: the lowest bit is the sign.
  def svarint
    coded = varint
    (coded >> 1) ^ -(coded & 1)
  end
end

def check_used_up(columns)
  columns.each do |name, column|
    refuse(column.offset, "column #{name} is not used up") unless column.end?
  end
end

# The words of a call in a dump:
# KIND [OBJECT] [SIZE] [ALIGNMENT] [-> OBJECT] [at ADDRESS] [stack NODE] [failed].
def call_text(call, died: nil, size: nil, alignment: nil, allocated: nil, address: nil,
              stack: nil, failed: false)
  words = [call.name, died, size, alignment].compact
  words << '->' << allocated if allocated
  words << 'at' << format('0x%x', address) if address
  words << "stack #{stack}" if stack && stack != 0
  words << 'failed' if failed
  words.join(' ')
end

# FORMAT.md 2.8 and 5.8, INSTRUCTIONS.md 4.6: what is defined, once what the streams say differently
# has been read.
class Definitions
  NUMBERS = 1 << 28
  MODULES = 1 << 16
  OFFSETS = 1 << 59
  WHOSE = ['module %d path', 'module %d build_id', 'code %d', 'module %d language'].freeze

  def initialize
    @given = { module: {}, code: {}, node: {}, text: {} }
  end

  # Each returns the words of a dump.
  def module(offset, number, start, bytes, bias)
    check_module(offset, number)
    refuse(offset, 'a module behind the end') if start + bytes >= 1 << 64
    give(offset, :module, number, 1)
    format('define module %d from 0x%x to 0x%x bias 0x%x', number, start, start + bytes, bias)
  end

  def unloaded(offset, number)
    check_module(offset, number)
    "define module #{number} unloaded"
  end

  # `take` has the piece.
  def text(offset, whose, number, length, from)
    refuse(offset, "text of #{whose}") unless WHOSE[whose]
    whose == 2 ? check_numbers(offset, number, 1, 1) : check_module(offset, number)
    refuse(offset, "a text of #{length}") unless length.between?(1, whose == 1 ? 64 : 32_767)
    refuse(offset, "a piece from #{from}") unless from < length && (from % 64).zero?
    give(offset, :text, [whose, number], 1) if from.zero?
    bytes = yield [length - from, 64].min
    format("define text of #{WHOSE[whose]} %d from %d %s", number, length, from, bytes.unpack1('H*'))
  end

  def codes(offset, first, of, offsets)
    refuse(offset, "#{offsets.size} codes") unless offsets.size.between?(1, 8)
    refuse(offset, "module #{of}") unless of < MODULES
    check_numbers(offset, first, 1, offsets.size)
    refuse(offset, 'an offset') unless offsets.all? { |one| one.between?(0, OFFSETS - 1) }
    give(offset, :code, first, offsets.size)
    ["define codes #{first} module #{of}", *offsets.map { |one| format('0x%x', one) }].join(' ')
  end

  def nodes(offset, first, parent, codes)
    refuse(offset, "#{codes.size} nodes") unless codes.size.between?(1, 16)
    check_numbers(offset, first, 8, codes.size)
    refuse(offset, "parent #{parent} of #{first}") unless parent.between?(0, first - 1)
    codes.each { |code| check_numbers(offset, code, 1, 1) }
    give(offset, :node, first, codes.size)
    ["define nodes #{first} parent #{parent} codes", *codes].join(' ')
  end

  private

  def check_module(offset, number)
    refuse(offset, "module #{number}") unless number.between?(1, MODULES - 1)
  end

  def check_numbers(offset, first, least, count)
    refuse(offset, "#{count} from #{first} on") unless first.between?(least, NUMBERS - count)
  end

  def give(offset, what, first, count)
    count.times do |index|
      number = first.is_a?(Integer) ? first + index : first
      refuse(offset, "#{what} #{number} is given twice") if @given[what][number]
      @given[what][number] = true
    end
  end
end

# FORMAT.md 4.5 and 4.6: both streams have the same payloads. `stream` is Bytes; each returns lines of
# a dump.
class AddressSpace
  WHATS = [nil, 'map', 'unmap', 'move_from', 'move_to', 'advise', 'protect', 'attach', 'detach',
           'break', 'lost', 'found', 'touched'].freeze
  WHYS = %w[look peak sync end].freeze

  def self.mappings(stream)
    latest = 0
    lines = []
    until stream.end?
      line, latest = mapping(stream, latest)
      lines << line
    end
    lines
  end

  def self.mapping(stream, latest)
    offset = stream.offset
    flags, what = stream.varint.divmod(16)
    refuse(offset, "mapping #{what}") unless what.positive? && WHATS[what] && flags < 16
    thread = word(stream)
    address = (latest + stream.svarint) % (1 << 64)
    words = ['mapping', WHATS[what], 'thread', thread, 'at', format('0x%x', address), 'bytes',
             stream.varint, 'protection', word(stream), 'flags', format('0x%x', word(stream))]
    stack = word(stream)
    refuse(offset, "stack #{stack}") unless stack < Definitions::NUMBERS
    words << 'stack' << stack if stack.positive?
    words.concat(lane(stream)) if flags[3] == 1
    words << 'own' if flags[1] == 1
    words << 'failed' if flags[0] == 1
    words.concat(what == 12 ? touched(stream) : file(stream) << name(stream)) if flags[2] == 1
    [words.compact.join(' '), address]
  end

  def self.word(stream)
    offset = stream.offset
    value = stream.varint
    refuse(offset, "#{value} has more than 32 bits") if value >= 1 << 32
    value
  end

  def self.lane(stream)
    offset = stream.offset
    lane = stream.varint
    calls = stream.varint
    refuse(offset, "#{calls} calls of lane #{lane}") unless lane < 1 << 16 && calls < 1 << 42
    ['lane', lane, 'calls', calls]
  end

  def self.file(stream)
    ['file offset', stream.varint, 'device', stream.varint, 'inode', stream.varint]
  end

  # Which pages of an object were resident; as a file, if these are no runs.
  def self.touched(stream)
    words = file(stream)
    before = stream.dup
    ['pages', words[1], 'runs', *touched_runs(stream.part(stream.varint))]
  rescue BadStream
    raise unless before

    words << name(before)
  end

  def self.touched_runs(bytes)
    offset = bytes.offset
    runs = []
    until bytes.end?
      runs << [bytes.varint, bytes.varint]
      good = runs.size <= 64 && runs.last[0] < 1 << 32 && runs.last[1].between?(1, (1 << 32) - 1)
      refuse(offset, 'no runs') unless good
    end
    runs.map { |run| run.join('+') }
  end

  # nil: there is none.
  def self.name(stream)
    offset = stream.offset
    bytes = stream.varint
    refuse(offset, "a name of #{bytes}") if bytes > 4096
    printable(stream.take(bytes)) if bytes.positive?
  end

  def self.residency(stream)
    offset = stream.offset
    nanoseconds, why, page, areas = Array.new(4) { stream.varint }
    brief, why = [why[3] == 1, why - (why[3] * 8)]
    refuse(offset, "residency for #{why}") unless WHYS[why]
    refuse(offset, "pages of #{page}") unless page.between?(1024, 1 << 20) && page.nobits?(page - 1)
    lines = ["residency #{WHYS[why]}#{' brief' if brief} nanoseconds #{nanoseconds} page #{page} areas #{areas}"]
    latest = 0
    before = []
    areas.times do
      line, latest, before = area(stream, latest, page, before)
      lines << line
    end
    check_used_up(residency: stream)
    lines
  end

  SIZES = %w[resident proportional unshared anonymous huge swapped locked].freeze

  # `before`: words of the latest file, and the latest name.
  def self.area(stream, latest, page, before)
    offset = stream.offset
    head, gap, pages = Array.new(3) { stream.varint }
    refuse(offset, "head #{head}") if head > 511
    first = latest + gap
    refuse(offset, 'a place') if pages.zero? || first + pages > 1 << 52
    letters = %w[r w x].each_with_index.map { |letter, bit| head[bit] == 1 ? letter : '-' }.join
    words = [format('area 0x%x to 0x%x', first * page, (first + pages) * page),
             letters + (head[3] == 1 ? 's' : 'p'),
             *SIZES.flat_map { |size| [size, stream.varint] }]
    words << 'recorder' if head[4] == 1
    words << 'heap' if head[8] == 1
    place = ['file offset', stream.varint] if head[5] == 1
    before = [(['device', stream.varint, 'inode', stream.varint] if place), name(stream)] if head[7].zero?
    words.concat(runs(stream, pages)) if head[6] == 1
    file = [*place, *(before[0] || %w[device 0 inode 0])] if place
    [[*words, *file, *before[1]].join(' '), first + pages, before]
  end

  def self.runs(stream, pages)
    offset = stream.offset
    runs = Array.new(stream.varint) { [stream.varint, stream.varint] }
    refuse(offset, 'runs') if runs.any? { |_, resident| resident.zero? } || runs.flatten.sum > pages
    ['runs', *runs.map { |pair| pair.join('+') }]
  end
end

# The words of a HEAP call. Numbers are unsigned, but for those of mallopt, whose parameters can be
# negative.
def heap_text(call, numbers)
  numbers = numbers.pack('Q*').unpack('q*') if call.name == 'mallopt'
  [call.name, *numbers].join(' ')
end

# Whoever made a trace chose its bytes: control characters, marks that turn the direction of a line,
# and what is no UTF-8, byte by byte.
CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/

def printable(bytes)
  text = bytes.dup.force_encoding(Encoding::UTF_8)
  text.scrub { |bad| escaped(bad) }.gsub(CONTROL) { |control| escaped(control) }
end

def escaped(text) = text.bytes.map { |byte| format('\\x%02x', byte) }.join

# Header lines that both streams have: one per line of metadata.
def dump_metadata(bytes)
  offset = bytes.offset
  bytes.take(bytes.left).each_line do |line|
    puts format('%012x metadata %s', offset, printable(line.delete_suffix("\n")))
    offset += line.bytesize
  end
end

def run_dump(name)
  $stdin.binmode
  $stdout.binmode
  yield Bytes.new($stdin.read, 0)
rescue BadStream => e
  $stdout.flush
  warn "#{name}: #{e.message}"
  exit 1
end
