#!/usr/bin/env ruby
# raw_dump - prints a raw event stream as `malloctape dump` does; written from stream/FORMAT.md
# alone.
#
#   lz4 -dc FILE | raw_dump.rb
#
# Sections are in the order of the document. Checksums are not verified (basics.rb says why).
require_relative 'basics'

# 2.5 Objects and places
PLACES = 1 << 32
ALLOCATIONS_MAX = (1 << 42) - 1

# An object that a record names: by its place, or 0, and of another lane by its number and the
# bound; of an unknown one and of another lane's the class is said.
Named = Struct.new(:place, :size_class, :lane, :bound, :unknown) do
  def to_s
    return place.zero? ? '?' : "?@#{place}" if unknown

    lane ? "#{lane}:#{bound}@#{place}" : "@#{place}"
  end
end

def structure_text(structure, offset)
  case structure
  when 0..127 then "class #{structure}"
  when 255 then 'page_heap'
  else refuse(offset, "structure #{structure} is undefined")
  end
end

# 2.6 What a reader knows of a thread's cache. Methods that return a text refuse: it says why.
class Cache
  LIST_MAX = 65_535
  attr_reader :short # whether a list had less than was taken from it

  def initialize
    @known = @short = false
    @bytes = {} # by class
    @classes = {} # of places, by their quotients by 64
    # the first place is the last element
    @lists = Hash.new { |lists, size_class| lists[size_class] = [] }
  end

  def begin
    @known = true
    @lists.clear
  end

  def end
    @known = false
    @lists.clear
  end

  def tell(size_class, bytes)
    return "class #{size_class} had #{@bytes[size_class]} bytes" unless
      @bytes.fetch(size_class, bytes) == bytes
    return "class #{@bytes.key(bytes)} has #{bytes} bytes" unless
      [nil, size_class].include?(@bytes.key(bytes))

    @bytes[size_class] = bytes
    nil
  end

  # A place whose class is said.
  def note(place, size_class)
    return "class #{size_class} was not announced" unless
      size_class.zero? || @bytes.key?(size_class)

    before = @classes[place / 64]
    return "place #{place} is of class #{before}, not #{size_class}" unless
      [nil, size_class].include?(before)

    @classes[place / 64] = size_class
    nil
  end

  # Whether the lane has such a place.
  def noted?(place) = @classes.key?(place / 64)

  def append(size_class, places)
    @lists[size_class].unshift(*places.reverse) if @known
  end

  def remove(size_class, count)
    return "class #{size_class} was not announced" unless @bytes.key?(size_class)
    return unless @known

    @short ||= count > @lists[size_class].size
    @lists[size_class].pop(count)
    nil
  end

  # The place of an allocation that says none, and nil; or nil, and why there is none.
  def take(size)
    return [nil, 'the cache is not known'] unless @known

    size_class, = @bytes.select { |_, bytes| bytes >= size }.min_by { |_, bytes| bytes }
    return [nil, "no class of #{size} bytes was announced"] unless size_class

    @short ||= @lists[size_class].empty?
    [@lists[size_class].pop || 0, nil] # 0: unknown
  end

  # An allocation that says its place.
  def leave(place, size_class)
    @lists[size_class].pop if @known && @lists[size_class].last == place
  end

  # A place of an object that ended. Lists have an end: nobody follows the cache behind it.
  def put(place)
    size_class = @classes[place / 64]
    return if !@known || size_class.zero?

    list = @lists[size_class]
    return self.end if list.size == LIST_MAX

    list.push(place)
  end
end

# 5.6 What a reader of an opaque stream knows of the places of a lane, so that packed chunks leave
# them out.
class Places
  LATEST = 2048
  LARGE = 4096
  attr_reader :last

  def initialize(rounding)
    @rounding = rounding
    @last = 0
    @latest = [] # the latest is the last
    @sizes = {} # entries of the table: a place and its step
    @lists = Hash.new { |lists, step| lists[step] = [] } # the first is the last
  end

  attr_writer :rounding

  def step(size) = size < LARGE ? (size + @rounding) / 16 : nil
  def entry(place) = ((place * 2_654_435_761) % (1 << 32)) >> 18
  def of_age(age) = age <= @latest.size ? @latest[-age] : nil

  def take(size, index)
    list = step(size) ? @lists[step(size)] : []
    index < list.size ? list.delete_at(-1 - index) : nil
  end

  def begin(place, size)
    @last = place
    @latest.push(place)
    @latest.shift if @latest.size > LATEST
    @sizes[entry(place)] = [place, step(size)]
  end

  def end(place)
    known, step = @sizes[entry(place)]
    return unless known == place && step

    list = @lists[step]
    list.push(place)
    list.shift if list.size > 64
  end
end

# What is carried from one chunk of a lane to the next: of the lane, and of its present segment.
class RawLane
  attr_reader :number, :sequences, :profile, :ways, :cache, :recent
  attr_accessor :records, :units, :allocations, :segment_allocation, :address
  attr_accessor :places, :rounding, :page_place, :page_address # of an opaque stream
  attr_accessor :stack, :next_code, :next_node # 2.8, 5.8

  def initialize(number)
    @number = number
    @records = @units = @allocations = 0
    @sequences = Hash.new(0)
    @cache = Cache.new
    # places of the latest allocations, by their numbers: all that an age can name (5.5)
    @recent = {}
  end

  def begin_segment(profile, key)
    @profile = profile
    @segment_allocation = @allocations
    @ways = Array.new(8) # lane and bound of the latest remote object, 5.2
    @address = @page_place = @page_address = 0
    @next_code = @next_node = 0
    @sequences.clear if key
  end

  def begun? = !@profile.nil?

  AGES = 2048

  # The next allocation, at its place.
  def bear(place)
    @allocations += 1
    @recent[@allocations] = place
    @recent.delete(@allocations - AGES)
  end

  def lose(allocations)
    @allocations += allocations
    @recent.delete_if { |allocation, _| allocation <= @allocations - AGES }
  end
end

class RawDump
  # 3. Records that are no calls
  THREAD_BEGIN = 48
  THREAD_END = 49
  THREAD_CACHE_DELETED = 50
  SEQUENCE_BEFORE = 51
  SEQUENCE_AFTER = 52
  LOST = 53
  FAILED = 54
  CLASS = 56
  CACHE_BEGIN = 57
  CACHED = 58
  UNCACHED = 59
  INSIDE = 60
  PAGE = 61
  STACK = 62
  DEFINE = 63
  WITH_BYTES = { 256 => 'sbrk', 257 => 'mmap', 258 => 'release',
                 259 => 'reuse', 260 => 'split', 261 => 'merge' }.freeze

  def initialize(stream)
    @stream = stream
    @lanes = Hash.new { |lanes, number| lanes[number] = RawLane.new(number) }
    @ticks = @nanoseconds = @cells = 0
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
    refuse(8, "version #{major} is unknown") unless major == 4
    metadata_bytes = @stream.u32
    refuse(12, 'too much metadata') if metadata_bytes > 65_536
    features = @stream.u64
    refuse(16, format('feature bits 0x%x are unknown', features & ~15)) if features > 15
    @has_addresses = features[0] == 1
    @opaque = features[1] == 1
    @has_stacks = features[2] == 1
    @frees_have_stacks = features[3] == 1
    @definitions = Definitions.new
    info = @stream.u64
    recording = @stream.take(16).unpack1('H*')
    start = @stream.u64
    pid = @stream.u32
    @stream.u32 # checksum
    puts format('%012x raw %d.%d features 0x%x info 0x%x recording %s start %d pid %d',
                0, major, minor, features, info, recording, start, pid)
    dump_metadata(@stream.part(metadata_bytes))
  end

  # 4.2 Chunk
  Chunk =
    Struct.new(:offset, :type, :flags, :lane, :units, :first_unit, :first_allocation, :payload) do
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
    when 4 then mappings(chunk)
    when 5 then residency(*without_units(chunk))
    end
  end

  def without_units(chunk)
    refuse(chunk.offset, "flags #{chunk.flags}") unless chunk.flags.zero?
    refuse(chunk.offset, 'a lane, units or an allocation where there is none') if
      (chunk.lane + chunk.units + chunk.first_allocation).positive?
    [chunk.offset, chunk.payload]
  end

  # Chunks of a lane follow one another.
  def units(chunk)
    lane = @lanes[chunk.lane]
    check_sequence(chunk, lane)
    profile = chunk.payload.take(8).bytes if chunk.begin?
    units = chunk.packed? ? unpack(chunk) : plain(chunk)
    begin_segment(chunk, lane, profile) if chunk.begin?
    follow_places(chunk, lane) if @opaque
    records(chunk, Units.new(units, chunk.payload.offset), lane)
    lane.units += chunk.units
  end

  def check_sequence(chunk, lane)
    offset = chunk.offset
    refuse(offset, "flags #{chunk.flags}") if chunk.flags > 7 || (chunk.key? && !chunk.begin?)
    refuse(offset,
           "lane #{lane.number}: unit #{chunk.first_unit} where #{lane.units} was due") unless
      chunk.first_unit == lane.units
    refuse(offset, "lane #{lane.number}: the first segment is not key") unless
      lane.begun? || chunk.key?
    allocations = chunk.begin? ? lane.allocations : lane.segment_allocation
    return if chunk.first_allocation == allocations

    refuse(offset, "lane #{lane.number}: allocation #{chunk.first_allocation} " \
                   "where #{allocations} was due")
  end

  # 5.6 What is known of places: nothing behind a chunk that is not packed, and in a key segment.
  def follow_places(chunk, lane)
    lane.places = nil if !chunk.packed? || chunk.key?
    return unless chunk.packed?

    lane.places ||= Places.new(lane.rounding)
    lane.places.rounding = lane.rounding
  end

  def plain(chunk)
    refuse(chunk.offset, "#{chunk.payload.left} bytes of units") unless
      chunk.payload.left == 2 * chunk.units
    chunk.payload.take(2 * chunk.units).unpack('v*')
  end

  # 5.5 Packed units
  #
  # In the slot there were up to twice as many.
  def unpack(chunk)
    units = []
    units << unpack_one(chunk.payload) until chunk.payload.end?
    least, most = @opaque ? [units.size / 3.0, 3 * units.size] : [units.size, 2 * units.size]
    refuse(chunk.offset, "#{chunk.units} units, packed as #{units.size}") unless
      chunk.units.between?(least, most)
    units
  end

  def unpack_one(payload)
    case code = payload.byte
    when 0..47 then 0xf800 + code
    when 48..91 then 0xa000 + (8 * (code - 48))
    when 92..103 then 0xf400 + (code - 92)
    when 104..127 then 0xc000 + (8 * (code - 104))
    when 243 then payload.byte
    when 128..254 then (code << 8) + payload.byte
    else payload.u16
    end
  end

  # 5.1 Profile. Refused by its chunk.
  PROFILE = [FREES, FREES, FREES, ALLOCATIONS, ALLOCATIONS, ALLOCATIONS, [:REALLOC], []].freeze

  def begin_segment(chunk, lane, kinds)
    if @opaque
      lane.rounding = kinds.pop
      refuse(chunk.offset, "rounding #{lane.rounding}") if lane.rounding > 15
    end
    profile = kinds.zip(PROFILE).map do |kind, shapes|
      next if kind.zero?

      call = CALLS[kind]
      refuse(chunk.offset, "kind #{kind} in the profile") unless call && shapes.include?(call.shape)
      call
    end
    lane.begin_segment(profile, chunk.key?)
    puts format('%012x L%d segment unit %d allocations %d%s profile %s', chunk.offset, lane.number,
                lane.units, lane.allocations, chunk.key? ? ' key' : '',
                profile.first(7).map { |call| call ? call.name : '-' }.join(' '))
  end

  # 4.3 Tick. The clock is monotonic.
  def tick(offset, payload, number)
    refuse(offset, "tick #{number} where #{@ticks} was due") unless number == @ticks
    nanoseconds, rss, heap = Array.new(3) { payload.varint }
    usage = Array.new(4) { payload.varint } unless payload.end?
    statistics = []
    statistics << payload.varint until payload.end? || statistics.size == 24
    check_used_up(tick: payload)
    refuse(offset, 'time goes backwards') if nanoseconds < @nanoseconds
    text = format('%012x tick %d nanoseconds %d rss %d heap %d', offset, @ticks, nanoseconds, rss,
                  heap)
    text += format(' recorder %d user %d system %d peak %d', *usage) if usage
    text += " statistics #{statistics.join(' ')}" if statistics.any?
    puts text
    @nanoseconds = nanoseconds
    @ticks += 1
  end

  # 4.5 Mappings, 4.6 residency
  def mappings(chunk)
    cells = chunk.units
    chunk.units = 0
    offset, payload = without_units(chunk)
    refuse(offset, "cell #{chunk.first_unit} where #{@cells} was due") unless
      chunk.first_unit == @cells
    AddressSpace.mappings(payload).each { |line| puts format('%012x %s', offset, line) }
    @cells += cells
  end

  def residency(offset, payload)
    AddressSpace.residency(payload).each { |line| puts format('%012x %s', offset, line) }
  end

  # 4.4 End. Checked before anything is printed.
  def finish(offset, payload)
    head = Array.new(6) { payload.varint }
    refuse(offset, "status #{head[0]}") if head[0] > 3
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

  # 5. A line has the offset of its chunk. What is told of the cache is not counted, and a line for
  #    each place.
  def records(chunk, units, lane)
    @units = units
    @lane = lane
    @packed = chunk.packed?
    until units.end?
      @counts = true
      texts = Array(record)
      texts.each do |text|
        puts format('%012x L%d #%d %s', chunk.offset, lane.number, lane.records, text)
      end
      lane.records += 1 if @counts
    end
  end

  # 5.2 Codes
  def record
    @offset = @units.offset
    unit = @units.take
    @opaque ? opaque_record(unit) : plain_record(unit)
  end

  def plain_record(unit)
    case unit
    when 0x0001..0x9fff then freeing(0, own(unit))
    when 0xa000..0xafff then allocation(3, unit - 0xa000)
    when 0xb001..0xbfff then freeing(1, own(unit - 0xb000))
    when 0xc000..0xcfff then allocation(4, unit - 0xc000)
    when 0xd000..0xd7ff then allocation(5, unit - 0xd000)
    when 0xd800..0xdfff then freeing(0, own(far(unit - 0xd800)))
    when 0xe000..0xe3ff then freeing(1, own(far(unit - 0xe000)))
    when 0xe400..0xe7ff then freeing(2, own(far(unit - 0xe400)))
    when 0xe800..0xebff then realloc(own(far(unit - 0xe800)))
    when 0xec00..0xefff then free_in_way(unit)
    when 0xf000..0xf0ff then general(unit)
    when 0xf100..0xf1ff then "sequence_before #{sequence(unit - 0xf100)}"
    when 0xf200..0xf2ff then "sequence_after #{sequence(unit - 0xf200)}"
    when 0xf300..0xf3ff then stack(unit)
    else aged(unit)
    end
  end

  # 5.6 Units of an opaque stream: how the place of an allocation is said, and itself.
  def opaque_record(unit)
    @placed = nil
    return after(unit) if unit.between?(0xf100, 0xf108) || unit.between?(0xf110, 0xf118)

    if @packed && (unit.between?(0x8000, 0x9fff) || unit.between?(0xf200, 0xf210))
      @placed = placing(unit)
      unit = @units.take
    end
    return compact(unit) if !@packed && unit.between?(0x0001, 0x9fff)

    case unit
    when 0x0001..0x9fff, 0xb001..0xbfff, 0xf100..0xf2ff
      refuse(@offset, format('unit %04x is undefined in an opaque stream', unit))
    end
    check_before(unit)
    plain_record(unit)
  end

  # Size and place in two units.
  def compact(unit)
    size, place = (((unit - 1) << 16) + @units.take).divmod(1 << 21)
    @placed = ->(_) { place }
    allocation(3, size)
  end

  # What says a place stands before an allocation.
  def check_before(unit)
    in_range = [0xa000..0xafff, 0xc000..0xcfff, 0xd000..0xd7ff].any? { |range| range === unit }
    refuse(@offset, 'a place before something else') if @placed && !in_range
  end

  # What the lane comes after: by an entry, or by lane and bound.
  def after(unit)
    entry = unit & 0xf
    if entry == 8
      other, bound = @units.number, @units.number
    else
      other, bound = @lane.ways[entry] || refuse(@offset, 'nothing is remembered in this way')
      bound += @units.number
    end
    remember(other, bound)
    "after #{other}:#{bound}#{' realloc' if unit >= 0xf110}"
  end

  # How to find the place, given the size.
  def placing(unit)
    return ->(size) { @lane.places.take(size, unit - 0xf200) } if unit.between?(0xf200, 0xf20f)

    difference = unit == 0xf210 ? unzigzag(@units.number) : unit - 0x9000
    ->(_) { @lane.places.last + difference }
  end

  # The place of an allocation of a range.
  def placed(size)
    place = if @packed || @placed
              (@placed || ->(bytes) { @lane.places.take(bytes, 0) }).call(size)
            else
              far_place
            end
    refuse(@offset, "place #{place}") unless place&.between?(1, PLACES - 1)
    place
  end

  def far_place = @units.take + (@units.take << 16)

  # 5.5 Objects by age
  def aged(unit)
    refuse(@offset, format('unit %04x is undefined', unit)) if unit < 0xf400 || !@packed
    case unit
    when 0xf400..0xf5ff then freeing(1, of_age(unit - 0xf3ff))
    when 0xf600..0xf6ff then freeing(2, of_age(unit - 0xf5ff))
    when 0xf700..0xf7ff then realloc(of_age(unit - 0xf6ff))
    else freeing(0, of_age(unit - 0xf7ff))
    end
  end

  # The rest of an operand of two units.
  def far(upper) = (upper * 65_536) + @units.take

  # The call of a range of the profile.
  def in_profile(range)
    @lane.profile[range] || refuse(@offset, "range #{range} is not used")
  end

  def allocation(range, size)
    allocated(in_profile(range), size:, says_place: false)
  end

  def freeing(range, object)
    died(in_profile(range), object)
  end

  def realloc(object)
    allocated(in_profile(6), died: object, size: @units.number)
  end

  # What follows the object of a free.
  def died(call, object)
    size = @units.number if WITH_SIZE.include?(call.shape)
    alignment = @units.number if WITH_ALIGNMENT.include?(call.shape)
    check_allocations(1) if @opaque
    give_back(object)
    @lane.allocations += 1 if @opaque
    call_text(call, died: object, size:, alignment:, stack: @frees_have_stacks && take_stack)
  end

  # What follows the size of a call that makes an object.
  def allocated(call, size:, died: nil, says_place: true)
    alignment = @units.number if WITH_ALIGNMENT.include?(call.shape)
    stays = call.name == 'realloc_in_place'
    place, size_class = said_place if says_place && !stays
    place = placed(size) if @opaque && !says_place
    at = address
    check_allocations(1)
    place = stays ? died.place : found_place(place, size_class, size)
    @lane.bear(place)
    @lane.places.begin(place, size) if @packed && @opaque
    stays ? check_class(died) : give_back(died)
    call_text(call, died:, size:, alignment:,
              allocated: "#{@lane.number}:#{@lane.allocations}@#{place}", address: at,
              stack: take_stack)
  end

  # Place: 0, or the place and its class. Nil: none is said.
  def said_place
    place = checked_place(@units.number)
    refuse(@offset, 'no place') if @opaque && place.zero?
    [place, class_number] unless place.zero?
  end

  def checked_place(place)
    refuse(@offset, "place #{place}") if place >= PLACES
    place
  end

  # 2.7: places have none.
  def class_number = @opaque ? 0 : checked_class(@units.number)

  def checked_class(size_class)
    refuse(@offset, "class #{size_class}") if size_class > 127
    size_class
  end

  # 2.6 Where an object is allocated: where the record says, or at the first place of a list.
  def found_place(place, size_class, size)
    unless place
      place, why = @lane.cache.take(size)
      refuse(@offset, why) unless place
      return place
    end
    return place if @opaque

    note(place, size_class)
    @lane.cache.leave(place, size_class)
    place
  end

  def note(place, size_class)
    why = @lane.cache.note(place, size_class)
    refuse(@offset, why) if why
  end

  # 2.6 The place of an object that ends.
  def give_back(object)
    return give_back_opaque(object) if @opaque

    check_class(object)
    @lane.cache.put(object.place) unless object.nil? || object.place.zero?
  end

  # 5.6
  def give_back_opaque(object)
    @lane.places.end(object.place) if @packed && object && !object.unknown && !object.lane
  end

  # The lane has the place of an own object; of other ones the class is said.
  def check_class(object)
    return if object.nil? || object.place.zero? || @opaque
    return note(object.place, object.size_class) if object.size_class

    refuse(@offset, "place #{object.place} is not one that the lane has") unless
      @lane.cache.noted?(object.place)
  end

  # Remote: a way, a place, and the difference of the bound to the one remembered, with the class.
  def free_in_way(unit)
    call = in_profile(0)
    place = far(unit & 0x7f)
    coded = @units.number
    other, bound = @lane.ways[(unit >> 7) & 7] ||
      refuse(@offset, 'nothing is remembered in this way')
    classes = @opaque ? 1 : 128
    died(call, remote(other, bound + (coded / classes), place, coded % classes))
  end

  def unzigzag(coded) = (coded >> 1) ^ -(coded & 1)

  # f000..f0ff: all operands follow.
  def general(unit)
    number = unit & 0x3f
    bits = (unit >> 6) & 3
    return call(CALLS[number], bits) if CALLS.key?(number)
    return failed(bits) if number == FAILED

    no_object(bits)
    if @has_stacks && [STACK, DEFINE].include?(number)
      @counts = false
      return number == STACK ? said_stack(@units.number) : define
    end
    of_both = [THREAD_BEGIN, THREAD_END, LOST].include?(number)
    refuse(@offset, "record #{number} in such a stream") unless
      of_both || @opaque == (number == PAGE)
    @counts = number < CLASS
    other(number)
  end

  def no_object(bits)
    refuse(@offset, 'a bit of an object where there is none') unless bits.zero?
  end

  def call(call, bits)
    return died(call, object(bits)) if FREES.include?(call.shape)

    if call.shape == :REALLOC
      ended = object(bits)
      return allocated(call, died: ended, size: @units.number)
    end
    no_object(bits)
    call.shape == :HEAP ? heap_text(call, heap_numbers) : allocated(call, size: @units.number)
  end

  def heap_numbers
    count = @units.number
    refuse(@offset, "#{count} numbers") if count > 2
    Array.new(count) { @units.number }
  end

  def failed(bits)
    call = CALLS[@units.number]
    refuse(@offset, 'an undefined kind failed') unless
      call && (ALLOCATIONS + [:REALLOC]).include?(call.shape)
    if call.shape == :REALLOC
      died = object(bits)
    else
      no_object(bits)
    end
    size = @units.number
    alignment = @units.number if WITH_ALIGNMENT.include?(call.shape)
    check_class(died)
    call_text(call, died:, size:, alignment:, stack: take_stack, failed: true)
  end

  # 2.8 Call stacks. The stack of the next call that can have one.
  def stack(unit)
    refuse(@offset, format('unit %04x is undefined', unit)) unless @has_stacks
    said_stack(far(unit - 0xf300))
  end

  def said_stack(node)
    refuse(@offset, "stack #{node}") unless node.between?(1, Definitions::NUMBERS - 1)
    @counts = false
    @lane.stack = node
    "stack #{node}"
  end

  def take_stack
    stack = @lane.stack
    @lane.stack = nil
    stack
  end

  def other(number)
    case number
    when THREAD_BEGIN
      take_stack
      forget_cache("thread_begin #{@units.number}")
    when THREAD_END then 'thread_end'
    when THREAD_CACHE_DELETED then forget_cache('thread_cache_deleted')
    when LOST
      take_stack
      forget_cache(lost)
    when CLASS then size_class
    when CACHE_BEGIN then cache_begin
    when CACHED then cached
    when UNCACHED then uncached
    when INSIDE then inside
    when PAGE then page
    else refuse(@offset, "record #{number} is undefined here")
    end
  end

  # Differences to the latest page of the segment.
  def page
    @lane.page_place += unzigzag(@units.number)
    @lane.page_address = (@lane.page_address + (8 * unzigzag(@units.number))) % (2**64)
    refuse(@offset, "place #{@lane.page_place}") unless
      @lane.page_place.between?(1, PLACES - 512)
    "page @#{@lane.page_place} at #{format('0x%x', @lane.page_address)}"
  end

  def forget_cache(text)
    @lane.cache.end
    text
  end

  def lost
    events = @units.number
    allocations = @units.number
    check_allocations(allocations)
    @lane.lose(allocations)
    "lost events #{events} allocations #{allocations}"
  end

  def check_allocations(more)
    refuse(@offset, 'too many allocations') if @lane.allocations + more > ALLOCATIONS_MAX
  end

  # 2.6 Caches
  def size_class
    size_class = cached_class
    bytes = @units.number
    refuse(@offset, "a class of #{bytes} bytes") unless bytes.between?(1, (1 << 32) - 1)
    why = @lane.cache.tell(size_class, bytes)
    refuse(@offset, why) if why
    "class #{size_class} bytes #{bytes}"
  end

  # One that a cache has lists of.
  def cached_class
    size_class = checked_class(@units.number)
    refuse(@offset, 'class 0') if size_class.zero?
    size_class
  end

  def cache_begin
    @lane.cache.begin
    'cache_begin'
  end

  def cached
    size_class = cached_class
    count = @units.number
    refuse(@offset, "#{count} places") unless count.between?(1, 16)
    places = cached_places(count)
    places.each { |place| note(place, size_class) }
    @lane.cache.append(size_class, places)
    places.map { |place| "cached class #{size_class} @#{place}" }
  end

  # Each but the first by its difference to the one before.
  def cached_places(count)
    place = 0
    Array.new(count) do |index|
      number = @units.number
      place += index.zero? ? number : unzigzag(number)
      refuse(@offset, "place #{place}") unless place.between?(1, PLACES - 1)
      place
    end
  end

  def uncached
    size_class = cached_class
    count = @units.number
    refuse(@offset, 'no places') if count.zero?
    why = @lane.cache.remove(size_class, count)
    refuse(@offset, why) if why
    "uncached class #{size_class} count #{count}"
  end

  # 3 What happened inside a call
  def inside
    what, after = @units.number.divmod(2)
    amount = @units.number
    name = after.zero? ? 'before' : 'after'
    return "#{WITH_BYTES[what]}_#{name} bytes #{amount}" if WITH_BYTES.key?(what)

    "waited_#{name} #{structure_text(what, @offset)} nanoseconds #{amount}"
  end

  # 5.8 Definitions
  def define
    more, what = @units.number.divmod(8)
    case what
    when 1, 2 then define_module(what, more)
    when 3 then define_text(more)
    when 4 then define_codes(more)
    when 5 then define_nodes(more)
    else refuse(@offset, "a definition of #{what}")
    end
  end

  def define_module(what, more)
    refuse(@offset, "#{more} modules") unless more.zero?
    number = @units.number
    return @definitions.unloaded(@offset, number) if what == 2

    start = @units.number
    bytes = @units.number
    @definitions.module(@offset, number, start, bytes, (start - unzigzag(@units.number)) % (2**64))
  end

  def define_text(whose)
    @definitions.text(@offset, whose, @units.number, @units.number, @units.number) do |count|
      bytes = Array.new((count + 1) / 2) { @units.take }.pack('v*')
      refuse(@offset, 'a byte that is left') if count.odd? && bytes.getbyte(count) != 0
      bytes.byteslice(0, count)
    end
  end

  def define_codes(count)
    refuse(@offset, "#{count} codes") if count > 8
    first = @lane.next_code + unzigzag(@units.number)
    @lane.next_code = first + count
    of = @units.number
    offset = 0
    offsets = Array.new(count) { offset = (offset + unzigzag(@units.number)) % (2**64) }
    @definitions.codes(@offset, first, of, offsets)
  end

  def define_nodes(count)
    refuse(@offset, "#{count} nodes") if count > 16
    first = @lane.next_node + unzigzag(@units.number)
    @lane.next_node = first + count
    parent = first - @units.number
    @definitions.nodes(@offset, first, parent, Array.new(count) { @units.number })
  end

  # 5.3 Sequence numbers
  def sequence(structure)
    text = structure_text(structure, @offset)
    difference = @units.number
    number = @lane.sequences[structure] += difference
    refuse(@offset, "#{text} number #{number} after #{number - difference}") if
      difference.zero? || number >= 1 << 58
    "#{text} number #{number}"
  end

  # Object: a place; or lane, bound, place and class; or place and class, or twice 0.
  def object(bits)
    case bits
    when 0 then own(@units.number)
    when 1 then remote(@units.number, @units.number, @units.number, class_number)
    when 2 then unknown(@units.number, class_number)
    else refuse(@offset, 'an object that is both remote and unknown')
    end
  end

  def own(place)
    refuse(@offset, 'an object at place 0') if place.zero?
    Named.new(checked_place(place))
  end

  def of_age(age)
    if @opaque
      return own(@lane.places.of_age(age) || refuse(@offset, "an object of age #{age}: none is"))
    end

    place = @lane.recent[@lane.allocations + 1 - age]
    known = !place.nil? && (!place.zero? || @lane.cache.short)
    refuse(@offset, "an object of age #{age}, of which no place is known") unless known
    place.zero? ? Named.new(0, nil, nil, nil, true) : own(place)
  end

  def remote(other, bound, place, size_class)
    remember(other, bound)
    refuse(@offset, 'an object at place 0') if place.zero?
    Named.new(checked_place(place), checked_class(size_class), other, bound)
  end

  def remember(other, bound)
    refuse(@offset, "lane #{other}") if other > 65_535 || other == @lane.number
    refuse(@offset, "bound #{bound}") unless bound.between?(0, ALLOCATIONS_MAX)
    @lane.ways[other % 8] = [other, bound] unless other.zero? && bound.zero?
  end

  def unknown(place, size_class)
    refuse(@offset, "class #{size_class}, but no place") if place.zero? && !size_class.zero?
    Named.new(checked_place(place), checked_class(size_class), nil, nil, true)
  end

  # 5.4 Addresses
  def address
    return unless @has_addresses

    @lane.address = (@lane.address + (8 * unzigzag(@units.number))) % (2**64)
  end
end

# The units of a chunk, front to back. `offset` is the place of the first one, if they are not
# packed.
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
