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

# What is carried from one chunk of a lane to the next: of the lane, and of its present run.
class RawLane
  attr_reader :number, :stamps, :profile, :ways
  attr_accessor :records, :units, :births, :run_birth, :address

  def initialize(number)
    @number = number
    @records = @units = @births = 0
    @stamps = Hash.new(0)
  end

  def begin_run(profile, key)
    @profile = profile
    @run_birth = @births
    @ways = Array.new(8) # [lane, serial] of the latest foreign object, 5.2
    @address = 0
    @stamps.clear if key
  end

  def begun? = !@profile.nil?
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
    @lanes = Hash.new { |lanes, number| lanes[number] = RawLane.new(number) }
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
    refuse(8, "version #{major} is unknown") unless major == 2
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
  Chunk = Struct.new(:offset, :type, :flags, :lane, :units, :first_unit, :first_birth, :payload) do
    def begin? = flags[0] == 1
    def key? = flags[1] == 1
    def packed? = flags[2] == 1
  end

  def chunk
    offset = @stream.offset
    refuse(offset, 'no chunk here') unless @stream.take(4) == 'MTRC'
    fields = [@stream.byte, @stream.byte, @stream.u16]
    payload_bytes = @stream.u32
    fields << @stream.u32 << @stream.u64 << @stream.u64
    @stream.u32 # checksum
    refuse(offset, 'payload too long') if payload_bytes > 1_048_576
    chunk = Chunk.new(offset, *fields, @stream.part(payload_bytes))
    refuse(offset, 'too many units') if chunk.units > 524_288
    case chunk.type
    when 1 then units(chunk)
    when 2 then tick(*without_units(chunk), chunk.first_unit)
    when 3 then finish(*without_units(chunk))
    end
  end

  def without_units(chunk)
    refuse(chunk.offset, "flags #{chunk.flags}") unless chunk.flags.zero?
    refuse(chunk.offset, 'a lane, units or a birth where there is none') if
      (chunk.lane + chunk.units + chunk.first_birth).positive?
    [chunk.offset, chunk.payload]
  end

  # Chunks of a lane follow one another.
  def units(chunk)
    lane = @lanes[chunk.lane]
    check_sequence(chunk, lane)
    profile = chunk.payload.take(8).bytes if chunk.begin?
    units = chunk.packed? ? unpack(chunk) : plain(chunk)
    begin_run(chunk, lane, profile) if chunk.begin?
    records(chunk, Units.new(units, chunk.payload.offset), lane)
    lane.units += chunk.units
  end

  def check_sequence(chunk, lane)
    offset = chunk.offset
    refuse(offset, "flags #{chunk.flags}") if chunk.flags > 7 || (chunk.key? && !chunk.begin?)
    refuse(offset, "lane #{lane.number}: unit #{chunk.first_unit} where #{lane.units} was due") unless
      chunk.first_unit == lane.units
    refuse(offset, "lane #{lane.number}: the first run is not key") unless lane.begun? || chunk.key?
    births = chunk.begin? ? lane.births : lane.run_birth
    refuse(offset, "lane #{lane.number}: birth #{chunk.first_birth} where #{births} was due") unless
      chunk.first_birth == births
  end

  def plain(chunk)
    refuse(chunk.offset, "#{chunk.payload.left} bytes of units") unless chunk.payload.left == 2 * chunk.units
    chunk.payload.take(2 * chunk.units).unpack('v*')
  end

  # 5.5 Packed units
  PAGES = [0x00..0x1f, 0x80..0x9f, 0xa0..0xaf, 0xc0..0xcf, 0xd0..0xdb, 0xe0..0xef, 0xf0..0xf2].flat_map(&:to_a).freeze

  def unpack(chunk)
    units = Array.new(chunk.units) { unpack_one(chunk.payload) }
    check_used_up(units: chunk.payload)
    units
  end

  def unpack_one(payload)
    case code = payload.byte
    when 0..47 then 1 + code
    when 48..91 then 0x8000 + (8 * (code - 48))
    when 92..103 then 0xa000 + (code - 92)
    when 104..127 then 0xc000 + (8 * (code - 104))
    when 128..254 then (PAGES[code - 128] << 8) + payload.byte
    else payload.u16
    end
  end

  # 5.1 Profile. Refused by its chunk.
  PROFILE = [DEATHS, DEATHS, DEATHS, BIRTHS, BIRTHS, BIRTHS, [:REALLOC], []].freeze

  def begin_run(chunk, lane, kinds)
    profile = kinds.zip(PROFILE).map do |kind, shapes|
      next if kind.zero?

      call = CALLS[kind]
      refuse(chunk.offset, "kind #{kind} in the profile") unless call && shapes.include?(call.shape)
      call
    end
    lane.begin_run(profile, chunk.key?)
    puts format('%012x L%d run unit %d births %d%s profile %s', chunk.offset, lane.number, lane.units, lane.births,
                chunk.key? ? ' key' : '', profile.first(7).map { |call| call ? call.name : '-' }.join(' '))
  end

  # 4.3 Tick. The clock is monotonic.
  def tick(offset, payload, number)
    refuse(offset, "tick #{number} where #{@ticks} was due") unless number == @ticks
    nanoseconds, rss, heap = Array.new(3) { payload.varint }
    check_used_up(tick: payload)
    refuse(offset, 'time goes backwards') if nanoseconds < @nanoseconds
    puts format('%012x tick %d nanoseconds %d rss %d heap %d', offset, @ticks, nanoseconds, rss, heap)
    @nanoseconds = nanoseconds
    @ticks += 1
  end

  # 4.4 End. Checked before anything is printed.
  def finish(offset, payload)
    head = Array.new(6) { payload.varint }
    refuse(offset, "status #{head[0]}") if head[0] > 2
    lanes = payload.varint
    refuse(offset, "#{lanes} lanes") if lanes > 65_536 || lanes <= (@lanes.keys.max || -1)
    lanes = Array.new(lanes) { payload.varint }
    check_used_up(end: payload)
    lanes.each_with_index do |units, number|
      read = @lanes.key?(number) ? @lanes[number].units : 0
      refuse(offset, "lane #{number}: #{units} units, #{read} read") unless units == read
    end
    print_end(format('%012x end', offset), head, lanes)
    @ended = true
  end

  def print_end(at, head, lanes)
    puts format("#{at} status %d nanoseconds %d events %d lost %d waits %d waited %d", *head)
    lanes.each_with_index { |units, number| puts "#{at} lane #{number} units #{units}" }
  end

  # 5. A line has the offset of its chunk.
  def records(chunk, units, lane)
    @units = units
    until units.end?
      text = record(lane)
      puts format('%012x L%d #%d %s', chunk.offset, lane.number, lane.records, text)
      lane.records += 1
    end
  end

  # 5.2 Codes
  def record(lane)
    @offset = @units.offset
    unit = @units.take
    case unit
    when 0x0001..0x7fff then death(lane, 0, unit)
    when 0x8000..0x9fff then birth(lane, 3, unit - 0x8000)
    when 0xa000..0xbfff then death(lane, 1, unit - 0x9fff)
    when 0xc000..0xcfff then birth(lane, 4, unit - 0xc000)
    when 0xd000..0xd7ff then birth(lane, 5, unit - 0xd000)
    when 0xd800..0xdfff then death(lane, 0, ((unit - 0xd800) * 65_536) + @units.take)
    when 0xe000..0xe7ff then death(lane, 2, unit - 0xdfff)
    when 0xe800..0xebff then realloc(lane, unit - 0xe7ff)
    when 0xec00..0xefff then death_in_way(lane, unit)
    when 0xf000..0xf0ff then general(lane, unit)
    when 0xf100..0xf1ff then "stamp_before #{stamp(lane, unit - 0xf100)}"
    when 0xf200..0xf2ff then "stamp_after #{stamp(lane, unit - 0xf200)}"
    else refuse(@offset, format('unit %04x is undefined', unit))
    end
  end

  # The call of a range of the profile.
  def in_profile(lane, range)
    lane.profile[range] || refuse(@offset, "range #{range} is not used")
  end

  def birth(lane, range, size)
    born(lane, in_profile(lane, range), size:)
  end

  def death(lane, range, distance)
    died(in_profile(lane, range), own(lane, distance))
  end

  def realloc(lane, distance)
    call = in_profile(lane, 6)
    object = own(lane, distance)
    born(lane, call, died: object, size: @units.number)
  end

  # What follows the object of a death.
  def died(call, object)
    size = @units.number if WITH_SIZE.include?(call.shape)
    alignment = @units.number if WITH_ALIGNMENT.include?(call.shape)
    call_text(call, died: object, size:, alignment:)
  end

  # What follows the size of a call that makes an object.
  def born(lane, call, size:, died: nil)
    alignment = @units.number if WITH_ALIGNMENT.include?(call.shape)
    at = address(lane)
    lane.births += 1
    check_births(lane)
    call_text(call, died:, size:, alignment:, born: token_text(lane.number, lane.births), address: at)
  end

  # Foreign: a way, and the difference of the serial to the one remembered there.
  def death_in_way(lane, unit)
    call = in_profile(lane, 0)
    coded = ((unit & 0x7f) << 16) | @units.take
    other, serial = lane.ways[(unit >> 7) & 7] || refuse(@offset, 'nothing is remembered in this way')
    died(call, foreign(lane, other, serial + unzigzag(coded)))
  end

  def unzigzag(coded) = (coded >> 1) ^ -(coded & 1)

  # f000..f0ff: all operands follow.
  def general(lane, unit)
    number = unit & 0x3f
    bits = (unit >> 6) & 3
    return call(lane, CALLS[number], bits) if CALLS.key?(number)
    return failed(lane, bits) if number == FAILED

    no_object(bits)
    other(lane, number)
  end

  def no_object(bits)
    refuse(@offset, 'a bit of an object where there is none') unless bits.zero?
  end

  def call(lane, call, bits)
    return died(call, object(lane, bits)) if DEATHS.include?(call.shape)

    if call.shape == :REALLOC
      ended = object(lane, bits)
      return born(lane, call, died: ended, size: @units.number)
    end
    no_object(bits)
    call.shape == :HEAP ? heap_text(call, heap_numbers) : born(lane, call, size: @units.number)
  end

  def heap_numbers
    count = @units.number
    refuse(@offset, "#{count} numbers") if count > 2
    Array.new(count) { @units.number }
  end

  def failed(lane, bits)
    call = CALLS[@units.number]
    refuse(@offset, 'an undefined kind failed') unless call && (BIRTHS + [:REALLOC]).include?(call.shape)
    if call.shape == :REALLOC
      died = object(lane, bits)
    else
      no_object(bits)
    end
    size = @units.number
    alignment = @units.number if WITH_ALIGNMENT.include?(call.shape)
    call_text(call, died:, size:, alignment:, failed: true)
  end

  def other(lane, number)
    case number
    when THREAD_BEGIN then "thread_begin #{@units.number}"
    when THREAD_END then 'thread_end'
    when THREAD_CACHE_DELETED then 'thread_cache_deleted'
    when LOST then lost(lane)
    when LOST_STAMPS then lost_stamps
    else refuse(@offset, "record #{number} is undefined here")
    end
  end

  def lost(lane)
    events = @units.number
    births = @units.number
    lane.births += births
    check_births(lane)
    "lost events #{events} births #{births}"
  end

  def check_births(lane)
    refuse(@offset, 'too many births') if lane.births >= 1 << 42
  end

  def lost_stamps
    text = structure_text(@units.number, @offset)
    first = @units.number
    count = @units.number
    refuse(@offset, "#{text}: #{count} numbers from #{first}") if first.zero? || first + count > 1 << 58 ||
                                                                  first >= 1 << 58
    "lost_stamps #{text} from #{first} count #{count}"
  end

  # 5.3 Stamps
  def stamp(lane, structure)
    text = structure_text(structure, @offset)
    difference = @units.number
    number = lane.stamps[structure] += difference
    refuse(@offset, "#{text} number #{number} after #{number - difference}") if difference.zero? || number >= 1 << 58
    "#{text} number #{number}"
  end

  # Object: a distance, or lane and serial, or no operand.
  def object(lane, bits)
    case bits
    when 0 then own(lane, @units.number)
    when 1 then foreign(lane, @units.number, @units.number)
    when 2 then '?'
    else refuse(@offset, 'an object that is both foreign and unknown')
    end
  end

  def own(lane, distance)
    refuse(@offset, "distance #{distance} after #{lane.births} births") unless distance.between?(1, lane.births)
    token_text(lane.number, lane.births + 1 - distance)
  end

  def foreign(lane, other, serial)
    refuse(@offset, "lane #{other}") if other > 65_535
    refuse(@offset, "serial #{serial}") unless
      serial.between?(1, other == lane.number ? lane.births : (1 << 42) - 1)
    lane.ways[other % 8] = [other, serial]
    token_text(other, serial)
  end

  # 5.4 Addresses
  def address(lane)
    return unless @has_addresses

    lane.address = (lane.address + (8 * unzigzag(@units.number))) % (2**64)
  end
end

# The units of a chunk, front to back. `offset` is the place of the first one, if they are not packed.
class Units
  def initialize(units, offset)
    @units = units
    @offset = offset
    @position = 0
  end

  def offset = @offset
  def end? = @position == @units.size

  def take
    refuse(offset, 'a record crosses the end of its chunk') if end?
    @position += 1
    @units[@position - 1]
  end

  # 15 bits in a unit, the lowest first; five units at most.
  def number
    value = 0
    5.times do |index|
      unit = take
      value |= (unit & 0x7fff) << (15 * index)
      next if unit > 0x7fff

      refuse(offset, 'a number of more than 64 bits') if value >= 1 << 64
      return value
    end
    refuse(offset, 'a number of more than five units')
  end
end

run_dump('raw_dump') { |bytes| RawDump.new(bytes).run } if $PROGRAM_NAME == __FILE__
