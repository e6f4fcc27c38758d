#!/usr/bin/env ruby
# report.rb - what `malloctape report --json` has to say of a trace, counted a second time: slowly,
# from the lines of `malloctape dump`, after docs/report.md.
#
#   malloctape dump ORDERED | ruby report.rb REPORT.json
#
# Prints every key whose value is another one, and fails then.
require 'json'

CALL = /\A\h{12} #\d+ L(\d+) (\w+)(.*)\z/
TICK = /\A\h{12} #\d+ tick \d+ nanoseconds \+(\d+) rss (\d+) heap (\d+)/
ALIGNED = %w[memalign aligned_alloc posix_memalign new_aligned new_aligned_nothrow new_array_aligned
             new_array_aligned_nothrow].freeze
STATISTIC = /\A\h{12} #\d+ statistic (\d+) is (\d+)/
ALLOCATOR = /\A\h{12} metadata allocator=(\S+)/
NAMES = /\A\h{12} metadata statistics=(.*)/
# What is called how when a value rises, and when it falls.
EVENTS = { 'arenas' => ['arena made', nil], 'main_arena_bytes' => [nil, 'trimmed'],
           'other_arenas_bytes' => [nil, 'trimmed'],
           'mmap_threshold_bytes' => ['threshold moved'] * 2,
           'trim_threshold_bytes' => ['threshold moved'] * 2,
           'abandoned_segments' => ['segment abandoned', 'segment taken over'] }.freeze
USAGE = /\A\h{12} #\d+ usage recorder (\d+) user (\d+) system (\d+)/
OTHERS = %w[lane thread_begin thread_end thread_cache_deleted freed_twice free_missed path touched].freeze
HEAP = %w[release_memory thread_idle thread_temporarily_idle thread_busy set_property
          set_release_rate mallopt malloc_trim].freeze
# Their last number, or the one before an alignment, is the size that the program gave.
SIZED = %w[free_sized delete_sized delete_array_sized].freeze
SIZED_ALIGNED = %w[free_aligned_sized delete_sized_aligned delete_array_sized_aligned].freeze
SIZES_MAX = 4096 + (1 << 18)
GROWTHS = [0.5, 1, 1.125, 1.25, 1.5, 2, 4, Float::INFINITY].freeze

Made = Struct.new(:size, :call, :lane, :ms, :bytes_before, :chain)

# ---- classes of numbers ----

def class_lowest(number)
  return number if number < 64

  step = 1 << (number.bit_length - 6)
  number / step * step
end

def class_highest(lowest)
  lowest < 64 ? lowest : lowest + (1 << (lowest.bit_length - 6)) - 1
end

def magnitude_lowest(number)
  number.zero? ? 0 : 1 << (number.bit_length - 1)
end

def columns(names, rows)
  names.zip(rows.empty? ? names.map { [] } : rows.transpose).to_h
end

def histogram(numbers)
  counts = numbers.map { |n| class_lowest(n) }.tally.sort
  result = columns(%w[lowest objects], counts)
  return result if numbers.empty?

  sorted = numbers.sort
  { 'p50' => 0.5, 'p90' => 0.9, 'p99' => 0.99, 'p999' => 0.999 }.each do |key, share|
    lowest = class_lowest(sorted[[(share * sorted.size).ceil, 1].max - 1])
    result[key] = [lowest, class_highest(lowest)]
  end
  result
end

# ---- sizes of allocators ----

def up(number, step) = (number + step - 1) / step * step
def four_a_doubling(size) = up(size, 1 << ((size - 1).bit_length - 3))

def tcmalloc_classes
  classes = []
  size = 8
  while size <= 256 * 1024
    moved = (65_536 / size).clamp(2, 32)
    span = (1..).find do |pages|
      (pages * 8192 % size) * 8 <= pages * 8192 && pages * 8192 / size >= moved / 4
    end
    key = [span, span * 8192 / size]
    classes.pop if classes.any? && classes.last[1] == key
    classes << [size, key]
    size += size < 16 ? 8 : size < 128 ? 16 : [(1 << (size.bit_length - 1)) / 8, 8192].min
  end
  classes.map(&:first)
end

TCMALLOC = tcmalloc_classes
ROUNDING = {
  'tcmalloc 2.16' => ->(n) { n > 262_144 ? up(n, 8192) : TCMALLOC.bsearch { |c| c >= n } },
  'jemalloc' => ->(n) { n <= 8 ? 8 : n <= 128 ? up(n, 16) : four_a_doubling(n) },
  'mimalloc' => lambda { |n|
    n > 131_072 ? up(n, 4096) : n <= 8 ? 8 : n <= 64 ? up(n, 16) : four_a_doubling(n)
  },
  'glibc' => ->(n) { [up(n + 8, 16), 32].max }
}.freeze

# ---- the trace ----

class Count
  attr_reader :result

  def initialize(lines)
    @lines = lines
    @peak_call = nil
    pass # finds the peak
    @peak_call = @peak[:call]
    pass # looks at what is alive there
    @result = {}
    put_calls
    put_objects
    put_lifetimes
    put_threads
    put_rest
    put_code if @has_stacks
  end

  private

  def begin_counts(lanes)
    @call = @bytes = @lost = @twice = @missed = @copied = @wrong = 0
    @grown_bytes = 0
    @kinds, @failed, @unknown = Array.new(3) { Hash.new(0) }
    @made, @ended, @aligned, @growth, @chains, @pieces, @freed, @looks = Array.new(8) { [] }
    @changes = { moved: 0, in_place: 0, grown: 0, shrunk: 0, same: 0 }
    @lanes = lanes
    @remote_frees = Hash.new { |h, k| h[k] = [0, 0] }
    @peak = { bytes: @live_bytes, objects: @live.size, call: 0, ms: ms }
    @at_peak = @peak_call&.zero? ? @live.values : []
    @rss = @heap = @user = @system = 0
    @said_before = nil
    @events = []
    @ticks = 0
    @piece = Hash.new(0)
    @piece[:begin] = @live_bytes
    @piece_kinds = Hash.new(0)
    @turn = 0
    @turn_ms = ms
  end

  # Of a base only what is alive counts, as made by no call; its threads are there, too.
  def end_base
    @lanes.each_value { |lane| lane.delete_if { |key,| !%i[threads thread].include?(key) } }
    @live.each_value { |object| object.call = object.bytes_before = object.chain = 0 }
    @has_base = @live.any?
    @begin_ns = @ns
    begin_counts(@lanes)
  end

  def pass
    @live_bytes = @ns = @lane = @begin_ns = 0
    @live = {}
    @usage = nil
    @names = []
    @said = []
    begin_counts(Hash.new { |h, k| h[k] = Hash.new(0) })
    @lines.each { |line| take(line) }
    turn_ends
    piece_ends(0, 0) if @piece[:calls].positive?
  end

  def ms = @ns / 1_000_000

  def take(line)
    if (statistic = STATISTIC.match(line))
      @said[statistic[1].to_i] = statistic[2].to_i
    elsif (names = NAMES.match(line))
      @names = names[1].split
    elsif (of = ALLOCATOR.match(line))
      @allocator = of[1].sub('gperftools', 'tcmalloc')
    elsif (tick = TICK.match(line))
      take_tick(*tick.captures.map(&:to_i))
    elsif (usage = USAGE.match(line))
      @usage = usage.captures.map(&:to_i)
      return
    elsif (call = CALL.match(line))
      @now = call[1].to_i
      OTHERS.include?(call[2]) ? take_other(call[2], call[3]) : take_call(call[2], call[3])
    elsif (features = /instructions \d+\.\d+ features 0x(\h+)/.match(line))
      @has_stacks = features[1].to_i(16)[1] == 1
      @frees_have_stacks = features[1].to_i(16)[2] == 1
    elsif line.end_with?(' base_end')
      end_base
    elsif (lost = /lost lane \d+ events (\d+)\z/.match(line))
      @lost += lost[1].to_i
    end
    @usage = nil
  end

  def take_tick(nanoseconds, rss, heap)
    @ns += nanoseconds
    @user, @system = @usage[1..] if @usage
    rss = [rss - @usage[0], 0].max if @usage
    @ticks += 1
    @looks << [rss, heap, @live_bytes, @call, ms, shared_now] if rss.positive?
    @rss = [@rss, rss].max
    @heap = [@heap, heap].max
    piece_ends(rss, heap)
    take_events
  end

  def shared_now
    at = @names.index('rss_shared_bytes')
    (at && @said[at]) || 0
  end

  def take_events
    return if @said.empty?

    @names.each_with_index do |name, i|
      before = (@said_before || @said)[i]
      event = EVENTS.fetch(name, [])[@said[i] > before ? 0 : 1] if @said[i] != before
      next unless event

      @events << { 'ns' => @ns, 'event' => event, 'name' => name, 'before' => before,
                   'after' => @said[i] }
    end
    @said_before = @said.dup
  end

  def piece_ends(rss, heap)
    @pieces << [@ns, @piece[:calls], @piece[:made], @piece[:ended], @piece[:reallocs],
                @piece[:bytes], @live.size, @live_bytes, [@piece[:most], @piece[:begin]].max, rss,
                heap, @piece_kinds, @said.dup]
    @piece = Hash.new(0)
    @piece_kinds = Hash.new(0)
    @piece[:begin] = @live_bytes
  end

  def turn_ends
    lane = @lanes[@lane]
    if @turn.positive?
      lane[:first] = @turn_ms if lane[:calls].zero?
      lane[:last] = ms
      lane[:calls] += @turn
      lane[:turns] += 1
      lane[:longest] = [lane[:longest], @turn].max
    end
    @turn = 0
    @turn_ms = ms
  end

  def take_other(name, rest)
    case name
    when 'lane'
      turn_ends
      @lane = @now
    when 'thread_begin'
      @lanes[@lane][:threads] += 1
      @lanes[@lane][:thread] = rest.to_i
    when 'freed_twice' then @twice += 1
    when 'free_missed' then @missed += 1
    end
  end

  def take_call(kind, rest)
    @call += 1
    @turn += 1
    @piece[:calls] += 1
    @kinds[kind] += 1
    @piece_kinds[kind] += 1
    failed = rest.end_with?(' failed')
    @failed[kind] += 1 if failed
    return if HEAP.include?(kind)

    names, brought = rest.sub(/ at 0x\h+/, '').split(' -> ')
    words = (names || '').split
    ended = words.shift if words[0] == '?' || words[0]&.start_with?('r')
    @unknown[kind] += 1 if ended == '?'
    return if failed

    change(kind, ended, brought&.split&.first, words.map(&:to_i))
  end

  def change(kind, ended, brought, numbers)
    old = @live[ended]
    if brought.nil?
      given = numbers[0] if (SIZED + SIZED_ALIGNED).include?(kind)
      @wrong += 1 if old && given && given != old.size
      ends(ended) if old
    else
      reallocated(kind, old, numbers[0]) if old
      chain = old ? [old.chain + 1, 4095].min : 0
      finish(@live.delete(ended), true) if old
      begins(brought, numbers[0], chain)
      @aligned << [numbers[1], numbers[0]] if ALIGNED.include?(kind)
    end
  end

  def reallocated(kind, old, size)
    moved = kind == 'realloc_moved'
    @changes[moved ? :moved : :in_place] += 1
    @changes[size > old.size ? :grown : size < old.size ? :shrunk : :same] += 1
    @copied += [size, old.size].min if moved
    @grown_bytes += [size - old.size, 0].max
    factor = old.size.positive? ? size.fdiv(old.size) : size.positive? ? Float::MAX : 1
    @growth << GROWTHS.index { |limit| factor <= limit }
    @piece[:reallocs] += 1
  end

  def begins(name, size, chain)
    @bytes += size
    @live_bytes += size
    @live[name] = Made.new(size, @call, @lane, ms, @bytes, chain)
    @made << @live[name]
    @lanes[@lane][:made] += 1
    @lanes[@lane][:bytes] += size
    @piece[:made] += 1
    @piece[:bytes] += size
    @piece[:most] = [@piece[:most], @live_bytes].max
    if @live_bytes > @peak[:bytes]
      @peak = { bytes: @live_bytes, objects: @live.size, call: @call, ms: ms }
    end
    @at_peak = @live.values if @call == @peak_call
  end

  def ends(name)
    object = @live.delete(name)
    @freed << [object.size, object.lane != @lane] if @frees_have_stacks
    finish(object, false)
    @chains << object.chain if object.chain.positive?
  end

  def finish(object, _goes_on)
    @live_bytes -= object.size
    @ended << [object, @call - object.call, @bytes - object.bytes_before, ms - object.ms]
    @lanes[@lane][:ended] += 1
    @piece[:ended] += 1
    return if object.lane == @lane

    @lanes[@lane][:remote_frees] += 1
    pair = @remote_frees[[object.lane, @lane]]
    pair[0] += 1
    pair[1] += object.size
  end

  # ---- the result ----

  def put_calls
    @result.update('by_kind' => @kinds, 'failed' => @failed, 'unknown' => @unknown)
    @result['numbers'] = {
      'calls' => @call, 'objects' => @made.size, 'bytes' => @bytes, 'ended' => @ended.size,
      'peak_live' => @peak[:bytes], 'peak_objects' => @peak[:objects],
      'end_live' => @live_bytes, 'end_objects' => @live.size,
      'remote_frees' => @lanes.values.sum { |lane| lane[:remote_frees] },
      'reallocs' => @growth.size, **@changes.transform_keys(&:to_s), 'copied' => @copied,
      'failed' => @failed.values.sum, 'unknown' => @unknown.values.sum,
      'zero_sizes' => @made.count { |o| o.size.zero? }, 'wrong_sizes' => @wrong,
      'freed_twice' => @twice, 'missed_frees' => @missed, 'lost_events' => @lost, 'time' => @ticks.positive? ? (@ns - @begin_ns) / 1_000_000 : nil,
      'threads' => @lanes.values.sum { |lane| lane[:threads] },
      'peak_rss' => @rss.positive? ? @rss : nil, 'peak_heap' => @heap.positive? ? @heap : nil
    }
  end

  def sum(objects) = objects.sum(&:size)

  def put_objects
    calls = Hash.new(0)
    @ended.each { |object, lived,| calls[object.size] += lived }
    peak, live = [@at_peak, @live.values].map { |objects| objects.group_by(&:size) }
    made = @made.group_by(&:size)
    rows = (made.keys | peak.keys | live.keys | calls.keys).sort.map do |size|
      all = made.fetch(size, [])
      at_peak = peak.fetch(size, [])
      at_end = live.fetch(size, [])
      [size, size, all.size, sum(all), calls[size], all.map(&:call).max || 0, at_peak.size, sum(at_peak), at_end.size,
       sum(at_end)]
    end
    @result['sizes'] = columns(%w[size highest made bytes lifetime_calls latest_call peak_objects peak_bytes
                                  end_objects end_bytes], rows)
    put_rounding
    put_first
  end

  # What all rows of code have together; tests/report/by_code_test.rb counts each.
  def put_code
    made, peak, live = [@made, @at_peak, @live.values].map { |list| [list.size, sum(list)] }
    @result['code'] = { 'all' => {
      'made' => made[0], 'bytes' => made[1], 'peak_objects' => peak[0], 'peak_bytes' => peak[1],
      'end_objects' => live[0], 'end_bytes' => live[1],
      'short_lived' => @ended.count { |_, lived,| lived <= 100 },
      'grown' => @changes[:grown], 'grown_bytes' => @grown_bytes,
      'remote_frees' => @lanes.values.sum { |lane| lane[:foreign] },
      'freed' => @freed.size, 'freed_bytes' => @freed.sum(&:first), 'freed_remote' => @freed.count(&:last)
    } }
  end

  # Some were made in each quarter of the time.
  def grows?(objects)
    counts = objects.map { |object| object.ms * 4 / (ms + 1) }.tally
    (0..3).all? { |quarter| counts.fetch(quarter, 0) * 16 >= objects.size }
  end

  def put_first
    live = @live.values.group_by(&:size)
    rows = @made.group_by(&:size).map do |size, all|
      left = live.fetch(size, [])
      since = left.count { |object| object.call.positive? }
      next if left.size < 16 || since < all.size - (all.size / 10) ||
              all.map(&:call).max <= @call - (@call / 4) || (@has_base && !grows?(left))

      [size, size, all.size, left.size, sum(left)]
    end
    rows = rows.compact.sort_by { |row| [-row[4], row[0]] }
    @result['first'] = { 'rss' => rss_parts,
                         'may_leak' => columns(%w[size highest made alive bytes], rows.first(64)) }
  end

  # Of the first tick near the most RSS.
  def rss_parts
    return nil if @looks.empty?

    rss, heap, live, call, at, shared = @looks.find { |look| look[0] >= @rss - @rss / 100 }
    live = [live, rss].min
    has_heap = heap.between?(live, rss)
    free = (has_heap ? heap : rss) - live
    others = has_heap ? rss - heap : 0
    shared = [shared, has_heap ? others : free].min
    has_heap ? others -= shared : free -= shared
    rounding = [rounding_of(live), free].min
    { 'peak' => @rss, 'rss' => rss, 'live' => live, 'rounding' => rounding,
      'partly' => free - rounding, 'empty' => 0, 'shared' => shared, 'others' => others,
      'call' => call, 'ms' => at,
      'has_pages' => false, 'has_heap' => has_heap }
  end

  def rounding_of(live)
    key = @result['rounding'].keys.find { |name| name.split[0] == @allocator }
    asked = sum(@at_peak)
    return 0 if key.nil? || asked.zero?

    (@result['rounding'][key]['peak_taken'] - asked) * live / asked
  end

  def put_rounding
    @result['rounding'] = ROUNDING.transform_values do |rule|
      classes = [@made, @at_peak].map { |all| all.group_by { |o| rule[o.size] } }
      rows = classes.flat_map(&:keys).uniq.sort.map do |size|
        [size, *classes.flat_map do |by_class|
          all = by_class.fetch(size, [])
          [all.size, sum(all), all.size * size]
        end]
      end
      { 'taken' => rows.sum { |row| row[3] }, 'peak_taken' => rows.sum(&:last),
        'classes' => columns(%w[size made bytes taken peak_objects peak_bytes peak_taken], rows) }
    end
    put_ages
  end

  def put_ages
    shift = 0
    shift += 1 while (@made.last&.call || 0) >> shift >= 1024
    peak, live = [@at_peak, @live.values].map { |objects| objects.group_by { |o| o.call >> shift } }
    rows = (peak.keys | live.keys).sort.map do |piece|
      [peak, live].flat_map { |all| [all.fetch(piece, []).size, sum(all.fetch(piece, []))] }
                  .unshift(piece)
    end
    @result['ages'] = { 'calls_per_piece' => 1 << shift }.merge(
      columns(%w[piece peak_objects peak_bytes end_objects end_bytes], rows)
    )
  end

  def put_lifetimes
    by_size = @ended.map { |o, calls,| [magnitude_lowest(o.size), magnitude_lowest(calls)] }
    @result['lifetimes'] = {
      'calls' => histogram(@ended.map { |one| one[1] }),
      'bytes' => histogram(@ended.map { |one| one[2] }),
      'ms' => histogram(@ended.map { |one| one[3] }),
      'by_size' => columns(%w[size calls objects], by_size.tally.sort.map(&:flatten))
    }
  end

  def put_threads
    peak, live = [@at_peak, @live.values].map { |objects| objects.group_by(&:lane) }
    used = @lanes.select { |_, lane| lane[:calls].positive? || lane[:threads].positive? }
    rows = used.sort.map do |number, lane|
      [number, *lane.values_at(:threads, :thread, :calls, :made, :bytes, :ended, :remote_frees, :turns,
                               :longest, :first, :last),
       *[peak, live].flat_map { |by| [by.fetch(number, []).size, sum(by.fetch(number, []))] }]
    end
    @result['threads'] = columns(%w[lane threads thread calls made bytes ended remote_frees turns
                                    longest_turn first_ms last_ms peak_objects peak_bytes
                                    end_objects end_bytes], rows)
    @result['remote_frees'] = columns(%w[made_by ended_by objects bytes], @remote_frees.sort.map(&:flatten))
                         .merge('other_objects' => 0, 'other_bytes' => 0)
  end

  def put_rest
    @chains += @live.values.map(&:chain).select(&:positive?)
    chains = @chains.map { |n| magnitude_lowest(n) }.tally.sort
    @result['reallocs'] = {
      'growth' => { 'up_to' => GROWTHS[0..-2] + [nil],
                    'calls' => GROWTHS.each_index.map { |i| @growth.count(i) } },
      'chains' => columns(%w[least objects], chains)
    }
    aligned = @aligned.group_by { |alignment,| [magnitude_lowest(alignment), 1].max }.sort
    @result['alignments'] = columns(%w[alignment made bytes], aligned.map do |alignment, all|
      [alignment, all.size, all.sum(&:last)]
    end)
    put_timeline
  end

  def put_timeline
    per_row = 1
    per_row *= 2 while @pieces.size > 1024 * per_row
    pieces = @pieces.each_slice(per_row).to_a
    rows = pieces.map do |some|
      all = some.transpose
      [all[0].last, *all[1..5].map(&:sum), all[6].last, all[7].last, *all[8..10].map(&:max)]
    end
    kinds = @kinds.to_h { |kind, _| [kind, pieces.map { |some| some.sum { |one| one[11][kind] } }] }
    @result['timeline'] = columns(%w[end_ns calls made ended reallocs bytes live_objects live_bytes
                                     most_live_bytes rss_bytes heap_bytes], rows)
                          .merge('ticks_per_row' => @pieces.empty? ? 0 : per_row,
                                 'by_kind' => kinds)
    put_second_peak(rows.map { |row| row.values_at(8, 7, 0) })
    put_others(rows)
    put_statistics(@pieces.each_slice(per_row).map { |some| some.last[12] })
  end

  # Rows of: most alive, alive at the end, time of the end.
  def put_second_peak(rows)
    peak = rows.map(&:first).max
    at = rows.index { |most,| most == peak } || 0
    apart = rows.each_index.select do |i|
      between = i < at ? rows[i...at] : rows[at...i]
      i != at && between.map { |row| row[1] }.min < rows[i][0] / 4 * 3
    end
    highest = apart.map { |i| rows[i][0] }.max
    second = apart.select { |i| rows[i][0] == highest }.find { |i| i < at } && apart.reverse
      .find { |i| i < at && rows[i][0] == highest } || apart.find { |i| rows[i][0] == highest }
    second = nil if second && rows[second][0] < peak / 5 * 4
    @result['numbers']['second_peak'] = second ? rows[second][0] : 0
    @second_ms = second ? rows[second][2] / 1_000_000 : 0
  end

  def put_others(rows)
    begins = [@begin_ns, *rows.map(&:first)]
    half = rows.empty? ? 0 : (rows.last[0] - @begin_ns) / rows.size / 2
    long = rows.each_index.select { |i| rows[i][0] - begins[i] >= [half, 1_000_000].max }
    busiest = long.max_by { |i| [rows[i][1].fdiv(rows[i][0] - begins[i]), -i] } if rows.size > 1
    busiest = nil if busiest && rows[busiest][1].zero?
    @result['others'] = {
      **numbers_of_sizes, 'ticks' => @ticks, 'user_ns' => @user, 'system_ns' => @system,
      'peak_call' => @peak[:call], 'peak_ms' => @peak[:ms], 'second_peak_ms' => @second_ms,
      'busiest_calls' => busiest ? rows[busiest][1] : 0,
      'busiest_ms' => busiest ? (rows[busiest][0] - begins[busiest]) / 1_000_000 : 0,
      'busiest_from_ms' => busiest ? begins[busiest] / 1_000_000 : 0
    }
  end

  def numbers_of_sizes
    sizes = @made.map(&:size)
    mean = sizes.empty? ? nil : (2 * sizes.sum + sizes.size) / (2 * sizes.size)
    { 'least_size' => sizes.min, 'mean_size' => mean, 'greatest_size' => sizes.max }
  end

  def put_statistics(over_time)
    @names = [] if @said.size < @names.size
    columns = Array.new(@names.size) { |i| over_time.map { |row| row[i] || 0 } }
    @result['statistics'] = {
      'last' => @names.zip(@said).to_h, 'timeline' => @names.zip(columns).to_h,
      'events' => @events.first(1024), 'events_left_out' => [@events.size - 1024, 0].max
    }
  end
end

# ---- comparing ----

def differences(told, counted, path, found)
  if counted.is_a?(Hash) && told.is_a?(Hash)
    (counted.keys | told.keys).each do |key|
      differences(told[key], counted[key], "#{path}.#{key}", found)
    end
  elsif told != counted
    found << "#{path[1..]}: #{told.to_json[0, 300]} instead of #{counted.to_json[0, 300]}"
  end
end

NOT_COUNTED = %w[path program allocator heap_unknown recording pid start status ends_at_exec what_if].freeze

# Bytes that were resident, by look.
def looks(lines)
  lines.each_with_object([]) do |line, sums|
    sums << 0 if line.match?(/\A\h{12} residency /)
    sums[-1] += 1024 * $1.to_i if line =~ /\A\h{12} area .*? resident (\d+) /
  end
end

# Whether owners at the peak and at the end add up to all that was resident then.
def owners_right?(rss, sums)
  return sums.empty? if rss.nil?
  peak, last = rss.values_at('peak', 'end').map { |look| look['bytes'] }
  sums.include?(peak) && peak >= sums.max - sums.max / 50 && last == sums.last &&
    rss['owners']['bytes'].sum + rss['unowned'] == peak &&
    rss['owners']['end_bytes'].sum + rss['unowned_end'] == last
end

# The looks at the peak and at the end may have more than each tick.
def raise_peak(counted, rss)
  return if rss.nil?
  kinds = rss['owners']['kind']
  looks = { 'peak' => 'bytes', 'end' => 'end_bytes' }.map do |look, column|
    own = kinds.zip(rss['owners'][column]).sum { |kind, bytes| kind == 'recorder' ? bytes : 0 }
    rss[look]['bytes'] - own
  end
  all = [counted['numbers']['peak_rss'].to_i, *looks].max
  counted['numbers']['peak_rss'] = all
  counted['first']['rss']['peak'] = all if counted['first']['rss']
end

lines = $stdin.each_line(chomp: true).to_a
told = JSON.parse(File.read(ARGV[0])).except(*NOT_COUNTED)
rss = told.delete('rss')
told['code'] = { 'all' => told['code']['all'].except('mapped') } if told['code']
# Sizes and pairs of lanes stand in no order.
{ 'sizes' => %w[size], 'remote_frees' => %w[made_by ended_by] }.each do |key, by|
  columns = told[key].select { |_, column| column.is_a?(Array) }
  order = columns[by[0]].each_index.sort_by { |i| by.map { |name| columns[name][i] } }
  told[key].merge!(columns.transform_values { |column| column.values_at(*order) })
end
found = owners_right?(rss, looks(lines)) ? [] : ['rss: owners do not add up']
counted = Count.new(lines).result
raise_peak(counted, rss)
differences(told, counted, '', found)
puts found
exit found.empty?
