#!/usr/bin/env ruby
# frozen_string_literal: true

# cut_test.rb - `malloctape cut`: a part has the calls of the whole there, and its base the objects.

require 'json'
require 'open3'
require 'tmpdir'
require_relative 'traces'

def cut(trace, part, *options)
  Open3.capture3(MALLOCTAPE, 'cut', '-q', trace, '-o', part, *options)
end

def info(path) = JSON.parse(output_of({}, MALLOCTAPE, 'info', '--json', '-', path))

# What differs between a part and the whole from `calls` on.
def differences(whole, part, calls)
  there = part.at_base
  return "objects: #{(there - whole.alive(calls)).first(3)} #{(whole.alive(calls) - there).first(3)}" if
    there != whole.alive(calls)

  wanted = whole.calls[calls, part.calls.size]
  at = part.calls.each_index.find { |i| part.calls[i] != wanted[i] }
  at && "call #{at}: #{part.calls[at]} instead of #{wanted[at]}"
end

# Bytes by owner; what is alive, rounded up or free in the heap together.
def owners_at_the_end(trace)
  rows = JSON.parse(output_of({}, MALLOCTAPE, 'report', '--json', '-', trace))['rss']['owners']
  rows['kind'].zip(rows['owner'], rows['end_bytes']).each_with_object(Hash.new(0)) do |(kind, owner, bytes), sums|
    sums[%w[alive rounding free].include?(kind) ? 'heap' : owner] += bytes if bytes.positive?
  end
end

# Two functions, and what main makes of both.
CODE = <<~TEXT
  w stacks=all
  c 1 0 10
  x 1 parse	src/json.c	12
  c 2 0 20
  x 2 insert	src/cache.c	7
  n 8 0 1
  n 9 0 2
  a 1 100 8
  a 2 200 9
  t 20000000 1000 1000
  a 3 300 8
  r 1 150 9
  f 2 0
  f 1 0
  t 20000000 1000 1000
TEXT

plan 16

Dir.mktmpdir('malloctape-cut') do |directory|
  Dir.chdir(directory)
  simulate('whole', 7, 4000, 'threads=3', 'addresses=1', 'frames=6', 'exits=40', 'failures=30', 'heap_calls=30')
  whole = Trace.new('whole')
  last = whole.calls.size

  wrong = [0, 1, 100, last / 2, last - 1, last].filter_map { |calls|
    _, errors, status = cut('whole', 'part', '--from', "#{calls}calls")
    next "#{calls}: #{errors}" unless status.success?

    part = Trace.new('part')
    difference = differences(whole, part, calls)
    difference ||= "#{part.calls.size} calls" unless part.calls.size == last - calls
    difference && "#{calls}: #{difference}"
  }
  report wrong.empty?, 'a part has the objects that were alive, and the calls after that', wrong

  cut('whole', 'part', '--from', "#{last / 3}calls", '--to', "#{last}calls")
  cut('part', 'again', '--from', "#{last / 3}calls", '--to', "#{last / 2}calls")
  again = Trace.new('again')
  difference = differences(whole, again, 2 * (last / 3))
  report difference.nil? && again.calls.size == last / 2 - last / 3, 'a part of a part is a part', [difference.to_s]

  verified = output_of({}, MALLOCTAPE, 'verify', 'again')
  replayed = JSON.parse(output_of({}, "#{BUILD}/bin/replay", '-q', '--json', '-', 'again'))
  told = JSON.parse(output_of({}, MALLOCTAPE, 'report', '--json', '-', 'again'))
  counts = [info('again')['events'], replayed['events'], told['numbers']['calls'], again.calls.size]
  reallocs = [replayed['reallocs'], again.calls.count { |call| call[2][0].match?(/^realloc_(moved|in_place)/) }]
  report verified.include?('consistent') && counts.uniq.size == 1 && reallocs.uniq.size == 1,
         'verify, info, replay and report count the calls of the part', [counts.inspect, reallocs.inspect]

  ns = whole.then { |_| info('whole')['duration_ns'] / 2 }
  cut('whole', 'part', '--from', "#{ns}ns")
  part = Trace.new('part')
  calls = last - part.calls.size
  report part.ns_at_base >= ns && differences(whole, part, calls).nil?, 'a part begins at a time',
         [part.ns_at_base, ns, differences(whole, part, calls)].map(&:to_s)

  cut('whole', 'part', '--from', "#{last / 2}calls", '--sizes', '100-', '--lanes', '0-1', '--drop', 'stacks',
      '--drop', 'addresses')
  sizes = Trace.new('part').at_base.map { |text| text.to_i }
  fewer = info('part')
  report (fewer['addresses'] || fewer['stacks']) == false && sizes.all? { |size| size >= 100 } &&
         !sizes.empty? && fewer['events'] < last / 2,
         'only what is chosen', [sizes.min, fewer['events']].map(&:to_s)

  stacks, = Open3.capture2("#{BUILD}/tests/symbols/write_stacks", stdin_data: CODE, binmode: true)
  File.binwrite('coded', stacks)
  cut('coded', 'part', '--code', 'parse', '--from', '20ms')
  part = Trace.new('part')
  calls = part.calls.map { |call| call[2][0][/^\w+ ?\d*/] }
  none = cut('whole', 'none', '--code', 'nothing')
  report part.at_base.map(&:to_i) == [100] && calls == ['malloc 300', 'realloc_moved 150', 'free'] && none[2].exitstatus == 1,
         'by code: whole objects', [part.at_base.inspect, calls.inspect, none[1]]

  # 30 small ones, the most of their size, were dead before anything else lived; each large one lived alone.
  made = ->(size) { "a 1 #{size} 0\nf 1 0\n" }
  text = (1..30).map { |i| "a #{i} 48 0\n" }.join + (1..30).map { |i| "f #{i} 0\n" }.join + (made.(20_000) * 4000)
  worn, = Open3.capture2("#{BUILD}/tests/symbols/write_stacks", stdin_data: "w stacks=all\n#{text}#{made.(8) * 9}", binmode: true)
  File.binwrite('worn', worn)
  kept = [[], %w[--moments 0]].map do |options|
    cut('worn', 'part', '--from', '8060calls', *options)
    base = output_of({}, MALLOCTAPE, 'dump', 'part').lines.take_while { |line| !line.include?('base_end') }
    [48, 20_000].map { |size| base.count { |line| line.include?(" malloc #{size} ") } }
  end
  report kept == [[30, 4000], [0, 0]], 'the base has what wears a heap: the most there were of a size, and what is large', kept.map(&:to_s)

  none = [%w[whole --sizes 123456789], %w[whole --lanes 99], ['whole', '--lanes', '99', '--from', "#{last / 2}calls"],
          %w[coded --code parse --sizes 7]].map { |trace, *words| cut(trace, 'empty', *words) }
  report none.all? { |_, errors, status| status.exitstatus == 1 && errors.include?('no object of the part is of these') } &&
         !File.exist?('empty'), 'a choice that is none is an error', none.map { |one| one[1] }

  File.write('nothing.lz4', '')
  said = [[], %w[--minimize true\ %s], %w[--thin 100]].map { |words| cut('nothing.lz4', 'empty', *words) }
  said << Open3.capture3(MALLOCTAPE, 'verify', 'nothing.lz4')
  said << Open3.capture3(MALLOCTAPE, 'export', '-q', '--to', 'memory_replay', '-o', 'empty', 'nothing.lz4')
  report said.all? { |_, errors, status| status.exitstatus == 1 && errors.match?(/\A.*the input is empty\n\z/) },
         'that there is nothing is said once', said.map { |one| one[1] }

  golden = "#{__dir__}/../golden/instructions-4.0"
  cut("#{golden}-statistics", 'part', '--from', '100calls', '--drop', 'statistics')
  cut("#{golden}-mappings", 'mapped', '--from', '1calls', '--drop', 'stacks')
  dumps = %w[part mapped].map { |trace| output_of({}, MALLOCTAPE, 'dump', trace) }
  report dumps[0].include?(' tick ') && !dumps[0].match?(/ statistic \d/) && dumps[1].match?(%r{ mapping .*/bin/a$.*base_end}m) &&
         !dumps[1].include?(' stack '), 'what is dropped is not in the base either; names of mapped files are', dumps

  cut("#{golden}-mappings", 'all')
  mappings = ["#{golden}-mappings", 'all'].map { |trace|
    output_of({}, MALLOCTAPE, 'dump', trace).lines(chomp: true).filter_map { |line|
      line[/ mapping .*/]&.sub(/ lane \d+ calls \d+/, '')
    }
  }
  report mappings.uniq.size == 1 && !mappings[0].empty? && File.size('all') < File.size("#{golden}-mappings") + 64,
         'mappings stay as they are, and are as small', [*mappings.map(&:inspect), File.size('all').to_s]

  # Of each hundred threads, one leaves an object.
  many = (0...50_000).map { |i| "a #{i} 64 0\n" } + (0...50_000).map { |i|
    i % 100 == 99 ? "a #{50_001 + i / 100} 32 0\nT\n" : "a 50000 32 0\nf 50000 0\nT\n"
  }
  crowd, = Open3.capture2("#{BUILD}/tests/symbols/write_stacks", stdin_data: "#{many.join}t 20000000 1 1\n", binmode: true)
  File.binwrite('crowd', crowd)
  before = Process.times.cutime
  cut('crowd', 'part', '--from', '20ms')
  seconds = Process.times.cutime - before
  report seconds < 1 && Trace.new('part').at_base.size == 50_500, 'many threads that end cost little', [seconds.to_s]

  streamed, = Open3.capture2(MALLOCTAPE, 'cut', '-q', '-', '-o', '-', '--from', '100calls',
                             stdin_data: File.binread('whole'), binmode: true)
  cut('whole', 'part', '--from', '100calls')
  report streamed == File.binread('part'), 'from a pipe to a pipe'

  # In the base 5 100 bytes were alive at once, over 3 seconds; 228 when it ends, and 20 ms after that.
  base = "#{__dir__}/../golden/instructions-4.0-base"
  replayed = JSON.parse(output_of({}, "#{BUILD}/bin/replay", '-q', '--json', '-', base))
  told = JSON.parse(output_of({}, MALLOCTAPE, 'report', '--json', '-', base))['numbers']
  numbers = [replayed['events'], replayed['peak_live_bytes'], replayed['original_seconds'], replayed['live_at_end'],
             told['calls'], told['peak_live'], told['time'], told['end_live'], told['objects']]
  report numbers == [2, 228, 0.02, 2, 2, 228, 20, 178, 1], 'what is in a base is made, and not measured',
         [numbers.inspect]

  output_of({}, MALLOCTAPE, 'record', '-q', '-o', 'raw.lz4', '--', 'ruby', '-e', '(1..200_000).map(&:to_s)')
  cut('raw.lz4', 'part', '--from', "#{info('raw.lz4')['events'] - 5}calls")
  owners = %w[raw.lz4 part].map { |trace| owners_at_the_end(trace) }
  report owners[0] == owners[1] && owners[0].any? { |name, bytes| name == 'heap' && bytes.positive? },
         'what is resident has the owners that it has in the whole', owners.map(&:inspect)

  beyond = cut('whole', 'none', '--from', '1h')
  mistaken = [['--from', '3x'], ['--sizes', '5-4'], ['--drop', 'all'], ['--from', '9s', '--to', '8s'], ['--moments', '513']]
             .map { |words| cut('whole', 'none', *words)[2].exitstatus }
  report beyond[2].exitstatus == 1 && beyond[1].include?('ends before the part begins') &&
         mistaken.uniq == [2] && !File.exist?('none'),
         'what is no part is refused, and leaves no file', [beyond[1], mistaken.inspect]
end
