#!/usr/bin/env ruby
# raw_dump - prints a raw event stream as `malloctape dump` does; written from tracing/FORMAT.md alone.
#
#   lz4 -dc FILE | raw_dump.rb
#
# Sections are in the order of the document. Checksums are not verified (basics.rb says why).
require_relative 'basics'

# 2.5 Tokens
def token_text(lane, serial)
  "#{lane}:#{serial}"
end

def structure_text(structure, offset)
  case structure
  when 0..127 then "class #{structure}"
  when 255 then 'page_heap'
  else refuse(offset, "structure #{structure} is undefined")
  end
end

# What is carried from one chunk of a lane to the next.
class RawLane
  attr_accessor :records, :births, :chunks, :stamps

  def initialize
    @records = @births = @chunks = 0
    @stamps = Hash.new(0)
  end
end

class RawDump
  # 3. Records that are no calls
  THREAD_BEGIN = 48
  THREAD_END = 49
  THREAD_CACHE_DELETED = 50
  STAMP_BEFORE = 51
  STAMP_AFTER = 52
  LOST = 53
  FAILED = 54
  LOST_STAMPS = 55

  def initialize(stream)
    @stream = stream
    @lanes = Hash.new { |lanes, number| lanes[number] = RawLane.new }
    @ticks = @nanoseconds = 0
  end

  # 4. Stream
  def run
    header
    until @stream.end?
      refuse(@stream.offset, 'data after the end chunk') if @ended
      chunk
    end
    refuse(@stream.offset, 'the stream was cut short') unless @ended
  end

  # 4.1 Header
  def header
    refuse(0, 'not a raw stream') unless @stream.take(8) == 'MTAPERAW'
    major = @stream.u16
    minor = @stream.u16
    refuse(8, "version #{major} is unknown") unless major == 1
    metadata_bytes = @stream.u32
    refuse(12, 'too much metadata') if metadata_bytes > 65_536
    features = @stream.u64
    refuse(16, format('feature bits 0x%x are unknown', features & ~1)) if features > 1
    @has_addresses = features[0] == 1
    info = @stream.u64
    run = @stream.take(16).unpack1('H*')
    start = @stream.u64
    pid = @stream.u32
    @stream.u32 # checksum
    puts format('%012x raw %d.%d features 0x%x info 0x%x run %s start %d pid %d',
                0, major, minor, features, info, run, start, pid)
    dump_metadata(@stream.part(metadata_bytes))
  end

  # 4.2 Chunk
  def chunk
    offset = @stream.offset
    refuse(offset, 'no chunk here') unless @stream.take(4) == 'MTRC'
    type = @stream.byte
    flags = @stream.byte
    lane = @stream.u16
    payload_bytes = @stream.u32
    records = @stream.u32
    first_record = @stream.u64
    first_birth = @stream.u64
    @stream.u32 # checksum
    refuse(offset, 'payload too long') if payload_bytes > 1_048_576
    refuse(offset, 'too many records') if records > 65_536
    refuse(offset, "undefined flags #{flags}") if flags > 1 && type <= 3
    refuse(offset, 'a lane or a birth where there is none') if [2, 3].include?(type) && (lane + first_birth).positive?
    payload = @stream.part(payload_bytes)

    case type
    when 1
      begin_chunk(offset, flags, lane, first_record, first_birth)
      records(offset, payload, lane, records)
    when 2
      refuse(offset, "tick #{first_record} where #{@ticks} was due") unless first_record == @ticks
      tick(offset, payload)
    when 3
      finish(offset, payload)
    end
  end

  # 4.2: chunks of a lane follow one another; 5.2: what key resets.
  def begin_chunk(offset, flags, number, first_record, first_birth)
    lane = @lanes[number]
    refuse(offset, "lane #{number}: record #{first_record} where #{lane.records} was due") unless
      first_record == lane.records
    refuse(offset, "lane #{number}: birth #{first_birth} where #{lane.births} was due") unless
      first_birth == lane.births
    key = flags == 1
    refuse(offset, "lane #{number}: the first chunk is not key") if lane.chunks.zero? && !key
    lane.stamps.clear if key
    lane.chunks += 1
  end

  # 4.3 Tick. The clock is monotonic.
  def tick(offset, payload)
    nanoseconds, rss, heap = Array.new(3) { payload.varint }
    check_used_up(tick: payload)
    refuse(offset, 'time goes backwards') if nanoseconds < @nanoseconds
    puts format('%012x tick %d nanoseconds %d rss %d heap %d', offset, @ticks, nanoseconds, rss, heap)
    @nanoseconds = nanoseconds
    @ticks += 1
  end

  # 4.4 End. Checked before anything is printed.
  def finish(offset, payload)
    head = Array.new(5) { payload.varint }
    refuse(offset, "status #{head[0]}") if head[0] > 2
    lanes = payload.pairs
    counts = payload.pairs
    check_used_up(end: payload)
    counts.reject! { |_kind, count| count.zero? }
    kinds = counts.map(&:first)
    refuse(offset, 'a kind that is none, or twice') if kinds != kinds.uniq || kinds.any? { |kind| !CALLS.key?(kind) }
    check_lanes(offset, lanes)
    print_end(format('%012x end', offset), head, lanes, counts.sort)
    @ended = true
  end

  def check_lanes(offset, lanes)
    refuse(offset, "#{lanes.size} lanes") if lanes.size > 65_536 || lanes.size <= (@lanes.keys.max || -1)
    lanes.each_with_index do |(records, _births), number|
      read = @lanes.key?(number) ? @lanes[number].records : 0
      refuse(offset, "lane #{number}: #{records} records, #{read} read") unless records == read
    end
  end

  def print_end(at, head, lanes, counts)
    puts format("#{at} status %d nanoseconds %d lost %d waits %d waited %d", *head)
    lanes.each_with_index do |(records, births), number|
      puts "#{at} lane #{number} records #{records} births #{births}"
    end
    counts.each { |kind, count| puts "#{at} count #{CALLS[kind].name} #{count}" }
  end

  # 5.1 Payload. A line has the offset of its chunk.
  def records(chunk, payload, number, count)
    @slots = payload.take(4).bytes.map { |kind| slot(kind, payload.offset) }
    check_slots(payload.offset)
    @codes = payload.part(payload.u32)
    @addresses = payload
    @foreign = {} # lane => the latest foreign serial, the latest lane last, 5.2
    @address = 0
    lane = @lanes[number]
    count.times do
      text = record(lane, number)
      puts format('%012x L%d #%d %s', chunk, number, lane.records, text)
      lane.records += 1
    end
    check_used_up(codes: @codes, addresses: @addresses)
  end

  def slot(kind, offset)
    return if kind.zero?

    CALLS[kind] || refuse(offset, "a slot for #{kind}, which is no call")
  end

  def check_slots(offset)
    @slots.first(2).compact.each do |call|
      refuse(offset, "a death slot for #{call.name}") unless DEATHS.include?(call.shape)
    end
    @slots.last(2).compact.each do |call|
      refuse(offset, "a birth slot for #{call.name}") unless BIRTHS.include?(call.shape)
    end
  end

  # 5.2 Codes: first byte, slot, first value, bytes of x. One row of the table each.
  Code = Struct.new(:bytes, :slot, :base, :step, :width)
  CODES = [
    Code.new(0..47, 0, 0, 1, 0),
    Code.new(48..119, 0, 48, 256, 1),
    Code.new(120..121, 0, 18_480, 65_536, 2),
    Code.new(122..137, 1, 0, 1, 0),
    Code.new(138..149, 1, 16, 256, 1),
    Code.new(150..150, 1, 3_088, 65_536, 2),
    Code.new(151..194, 2, 0, 8, 0),
    Code.new(195..206, 2, 0, 256, 1),
    Code.new(207..207, 2, 0, 65_536, 2),
    Code.new(208..231, 3, 0, 8, 0),
    Code.new(232..239, 3, 0, 256, 1),
    Code.new(240..240, 3, 0, 65_536, 2)
  ].freeze

  def record(lane, number)
    offset = @codes.offset
    byte = @codes.byte
    case byte
    when 241 then foreign_again(lane, number, offset)
    when 242 then long_record(@codes.byte, lane, number, offset)
    else
      code = CODES.find { |row| row.bytes.cover?(byte) } || refuse(offset, "code #{byte} is undefined")
      short_record(code, byte, lane, number, offset)
    end
  end

  def short_record(code, byte, lane, number, offset)
    call = @slots[code.slot] || refuse(offset, "slot #{code.slot} is not used")
    more = [0, @codes.method(:byte), @codes.method(:u16)][code.width]
    value = code.base + (byte - code.bytes.first) * code.step + (more.is_a?(Method) ? more.call : more)
    if BIRTHS.include?(call.shape)
      alignment = @codes.varint if WITH_ALIGNMENT.include?(call.shape)
      birth(call, lane, number, size: value, alignment:)
    else
      death(call, token_text(number, own_serial(lane, value, offset)))
    end
  end

  # 241: the lane of the latest foreign object, and a serial relative to its.
  def foreign_again(lane, _number, offset)
    call = @slots[0] || refuse(offset, 'slot 0 is not used')
    difference = @codes.svarint
    refuse(offset, 'no foreign object before') if @foreign.empty?
    other_lane, serial = @foreign.to_a.last
    death(call, foreign(other_lane, serial + difference, lane, offset))
  end

  # A death whose object is known; the other operands follow.
  def death(call, died)
    size = @codes.varint if WITH_SIZE.include?(call.shape)
    alignment = @codes.varint if WITH_ALIGNMENT.include?(call.shape)
    call_text(call, died:, size:, alignment:)
  end

  def birth(call, lane, number, died: nil, size: nil, alignment: nil)
    lane.births += 1
    call_text(call, died:, size:, alignment:, born: token_text(number, lane.births), address:)
  end

  # 242: an opcode byte, and all operands as varints.
  def long_record(opcode, lane, number, offset)
    kind = opcode & 0x3f
    if CALLS.key?(kind)
      call_record(CALLS[kind], opcode, lane, number, offset)
    elsif kind == FAILED
      failed_record(opcode, lane, number, offset)
    else
      refuse(offset, format('opcode 0x%02x: bits that are not allowed', opcode)) if opcode != kind
      other_record(kind, lane, offset)
    end
  end

  def call_record(call, opcode, lane, number, offset)
    ends = call.shape == :REALLOC || DEATHS.include?(call.shape)
    refuse(offset, format('opcode 0x%02x: bits that are not allowed', opcode)) if opcode > 0x3f && !ends
    return heap_text(call, heap_numbers(offset)) if call.shape == :HEAP

    died = object(opcode, lane, number, offset) if ends
    return death(call, died) if DEATHS.include?(call.shape)

    size = @codes.varint
    alignment = @codes.varint if WITH_ALIGNMENT.include?(call.shape)
    birth(call, lane, number, died:, size:, alignment:)
  end

  def heap_numbers(offset)
    count = @codes.varint
    refuse(offset, "#{count} numbers") if count > 2
    Array.new(count) { @codes.varint }
  end

  # A call that failed has the object's bits if it is a REALLOC.
  def failed_record(opcode, lane, number, offset)
    call = CALLS[@codes.varint]
    refuse(offset, 'an undefined kind failed') unless call && (BIRTHS + [:REALLOC]).include?(call.shape)
    died = object(opcode, lane, number, offset) if call.shape == :REALLOC
    refuse(offset, format('opcode 0x%02x: bits that are not allowed', opcode)) if opcode > 0x3f && !died
    size = @codes.varint
    alignment = @codes.varint if WITH_ALIGNMENT.include?(call.shape)
    call_text(call, died:, size:, alignment:, failed: true)
  end

  def other_record(kind, lane, offset)
    case kind
    when THREAD_BEGIN then "thread_begin #{@codes.varint}"
    when THREAD_END then 'thread_end'
    when THREAD_CACHE_DELETED then 'thread_cache_deleted'
    when STAMP_BEFORE then "stamp_before #{stamp(lane, offset)}"
    when STAMP_AFTER then "stamp_after #{stamp(lane, offset)}"
    when LOST then lost(lane)
    when LOST_STAMPS then lost_stamps(offset)
    else refuse(offset, "record #{kind} is undefined")
    end
  end

  # Number less the one before.
  def stamp(lane, offset)
    structure = @codes.varint
    text = structure_text(structure, offset)
    difference = @codes.varint
    refuse(offset, "#{text} number #{lane.stamps[structure]} again") if difference.zero?
    lane.stamps[structure] += difference
    "#{text} number #{lane.stamps[structure]}"
  end

  def lost(lane)
    events = @codes.varint
    births = @codes.varint
    lane.births += births
    "lost events #{events} births #{births}"
  end

  def lost_stamps(offset)
    "lost_stamps #{structure_text(@codes.varint, offset)} from #{@codes.varint} count #{@codes.varint}"
  end

  # Object: a distance, or lane and serial, or no operand.
  def object(opcode, lane, number, offset)
    case opcode >> 6
    when 0 then token_text(number, own_serial(lane, @codes.varint, offset))
    when 1
      other_lane = @codes.varint
      before = @foreign[other_lane]
      foreign(other_lane, before ? before + @codes.svarint : @codes.varint, lane, offset)
    when 2 then '?'
    else refuse(offset, 'an object that is both foreign and unknown')
    end
  end

  def own_serial(lane, distance, offset)
    refuse(offset, "an object #{distance} births ago, after #{lane.births}") if distance >= lane.births
    lane.births - distance
  end

  def foreign(lane_number, serial, lane, offset)
    refuse(offset, "lane #{lane_number}") if lane_number > 65_535
    own = @lanes.key?(lane_number) && @lanes[lane_number].equal?(lane)
    refuse(offset, "serial #{serial}") unless serial.between?(1, own ? lane.births : (1 << 42) - 1)
    @foreign.delete(lane_number)
    @foreign[lane_number] = serial
    token_text(lane_number, serial)
  end

  # 5.3 Addresses
  def address
    return unless @has_addresses

    @address = (@address + (8 * @addresses.svarint)) % (2**64)
  end
end

run_dump('raw_dump') { |bytes| RawDump.new(bytes).run } if $PROGRAM_NAME == __FILE__
