#!/usr/bin/env ruby
# frozen_string_literal: true

# change_test.rb - `malloctape change`: each change on a small stream, to the last call; and `compare
# --what-if`, which replays them.

require 'json'
require 'open3'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"

# main calls parse (json.c:12) and insert (cache.c:7), and parse calls insert. Nodes: 8 main, 9 main >
# parse, 10 main > insert, 11 main > parse > insert, 12 main > parse > std::vector::push_back.
CODE = +<<~TEXT
  c 1 0 10
  x 1 Json::parse	src/json.c	12
  c 2 0 20
  x 2 insert	src/cache.c	7
  c 3 0 30
  x 3 main	main.c	3
  c 4 0 40
  x 4 std::vector::push_back	/usr/include/c++/vector	1
  n 8 0 3
  n 9 8 1
  n 10 8 2
  n 11 9 2
  n 12 9 4
TEXT

CALLS = <<~TEXT
  a 1 100 9
  a 2 24 10
  a 3 50 11
  r 2 48 10
  f 1 0
  r 2 96 10
  t 20000000 1000 1000
  a 4 24 12
  f 3 0
  f 2 0
  f 4 0
TEXT

def write(path, calls, stacks: 'all')
  output, status = Open3.capture2("#{BUILD}/tests/symbols/write_stacks",
                                  stdin_data: "w stacks=#{stacks}\n#{CODE}#{calls}")
  abort 'Bail out! write_stacks failed' unless status.success?
  File.binwrite(path, output)
end

def change(trace, what, *options)
  Open3.capture3(MALLOCTAPE, 'change', trace, what, '-o', 'changed', *options)
end

# The calls of a stream: "malloc 24", "realloc 48", "free"; with the number of their object.
def calls_of(path)
  output_of({}, MALLOCTAPE, 'dump', '--only-calls', path).lines.map do |line|
    line.chomp.sub(/ stack \d+$/, '').sub(/ at 0x\h+$/, '').sub('realloc_moved', 'realloc').sub(/ -> (r\d+)$/, ' \1')
        .sub(/^realloc (r\d+) (\d+) \1$/, 'realloc \2 \1')
  end
end

def consistent?(path) = system(MALLOCTAPE, 'verify', path, out: File::NULL)

# Whether a change makes these calls, and its summary matches.
def changes(what, summary, wanted, text = "#{what} changes what it should", trace: 'trace')
  _, errors, status = change(trace, what)
  got = status.success? ? calls_of('changed') : []
  good = got.join("\n") == wanted.strip && errors.match?(summary) &&
         consistent?('changed')
  report good, text, ["got:\n#{got.join("\n")}\n#{errors}"] * (good ? 0 : 1)
end

def refuses(what, message, trace: 'trace', status: 1)
  File.delete('changed') if File.exist?('changed')
  _, errors, ended = change(trace, what)
  good = ended.exitstatus == status && errors.match?(message) && !File.exist?('changed')
  report good, "#{what.inspect} is refused: #{message.source}", [errors] * (good ? 0 : 1)
end

plan 66
Dir.chdir(ENV['TMPDIR'] = Dir.mktmpdir)
at_exit { Dir.chdir('/') && FileUtils.rm_rf(ENV.fetch('TMPDIR')) }
require 'fileutils'
write('trace', CALLS)

changes 'parse: remove', /^parse: remove: 3 objects, 2 of them .* alive at the peak$/, <<~CALLS
  malloc 24 r0
  realloc 48 r0
  realloc 96 r0
  free r0
CALLS
# The vector works for parse, so it is parse that allocates.
changes 'Json::parse itself: remove', /: 2 objects, 1 of them/, <<~CALLS
  malloc 24 r0
  malloc 50 r1
  realloc 48 r0
  realloc 96 r0
  free r1
  free r0
CALLS
_, errors, = change('trace', 'parse itself: remove', '--skip', '^insert$')
report errors.include?(': 3 objects,'), 'functions that are passed over allocate for their callers',
       [errors]
changes 'parse > insert: size=-8', /: 1 object, 1 of them/, <<~CALLS
  malloc 100 r0
  malloc 24 r1
  malloc 42 r2
  realloc 48 r1
  free r0
  realloc 96 r1
  malloc 24 r0
  free r2
  free r1
  free r0
CALLS
changes 'cache.c:7: reserve', /: 1 object, 1 of them/, <<~CALLS
  malloc 100 r0
  malloc 96 r1
  malloc 50 r2
  free r0
  malloc 24 r0
  free r2
  free r1
  free r0
CALLS
changes 'json.c: size=x0.5; insert of 24: size=1000', /json.c.*: 3 objects.*insert of 24.*: 1 object,/m,
        <<~CALLS
          malloc 50 r0
          malloc 1000 r1
          malloc 25 r2
          realloc 1000 r1
          free r0
          realloc 1000 r1
          malloc 12 r0
          free r2
          free r1
          free r0
        CALLS
# Two calls later; what the program does with them afterwards is left out.
changes 'of 24-50: until=2calls',
        /: 3 objects, 2 of them .* peak; 3 freed by the change, 3 of them by the program later/, <<~CALLS
          malloc 100 r0
          malloc 24 r1
          malloc 50 r2
          realloc 48 r1
          free r1
          free r0
          free r2
          malloc 24 r2
          free r2
        CALLS
changes 'main: until=10ms', /: 4 objects, 3 of them .*; 2 freed by the change/, <<~CALLS
  malloc 100 r0
  malloc 24 r1
  malloc 50 r2
  realloc 48 r1
  free r0
  realloc 96 r1
  free r1
  free r2
  malloc 24 r2
  free r2
CALLS
changes 'main: until=1objects', /: 4 objects/, <<~CALLS
  malloc 100 r0
  malloc 24 r1
  free r0
  malloc 50 r0
  free r1
  malloc 24 r1
  free r0
  free r1
CALLS
changes 'main: until=100bytes', /: 4 objects/, <<~CALLS
  malloc 100 r0
  malloc 24 r1
  malloc 50 r2
  realloc 48 r1
  free r0
  realloc 96 r1
  malloc 24 r0
  free r2
  free r1
  free r0
CALLS
changes 'insert: size=-30', /: 2 objects.*; 1 size would have been less than 0/, <<~CALLS
  malloc 100 r0
  malloc 0 r1
  malloc 20 r2
  realloc 18 r1
  free r0
  realloc 66 r1
  malloc 24 r0
  free r2
  free r1
  free r0
CALLS

# --- a share ---

write('many', (1..4000).map { |at| "a #{at} 16 9\n" }.join)
counts = Array.new(2) do
  change('many', 'parse: remove=75%')
  calls_of('changed').size
end
report counts[0] == counts[1] && (850..1150).cover?(counts[0]),
       'a share of the objects is removed, the same each time', [counts.inspect]

# --- containers that copy ---

write('vector', <<~CALLS)
  a 1 16 12
  a 2 32 12
  f 1 0
  a 3 500 9
  a 4 64 12
  f 2 0
  a 5 16 12
  f 4 0
  f 3 0
CALLS
changes 'push_back: reserve', /: 1 object, 1 of them/, <<~CALLS, trace: 'vector'
  malloc 64 r0
  malloc 500 r1
  malloc 16 r2
  free r0
  free r1
CALLS
write('shrinks', "a 1 16 9\nr 1 400 9\nr 1 300 9\n")
changes 'parse: reserve', /; 1 had been larger than at last/, 'malloc 300 r0', trace: 'shrinks'
write('grown', "a 1 16 8\nr 1 400 9\na 2 7 9\n")
changes 'parse: size=24', /: 1 object, .*; 1 realloc of objects made elsewhere stays/, <<~CALLS,
  malloc 16 r0
  realloc 400 r0
  malloc 24 r1
CALLS
        'reallocs of objects that others made are told', trace: 'grown'

CODE << "c 7 0 70\nx 7 app.load\tsrc/app.py\t1\nn 20 8 7\n" # 20 main > app.load of Python
write('python', "a 1 16 20\na 2 24 9\n")
changes 'load: remove', /: 1 object,/, 'malloc 24 r0', 'functions of Python need no module', trace: 'python'
refuses 'py: remove', /is called 'py'/, trace: 'python'
refuses 'laod: remove', /near: app.load/, trace: 'python'

# --- chunks ---

write('chunks', <<~CALLS)
  a 1 24 9
  a 2 24 9
  a 3 40 9
  f 1 0
  a 4 24 9
  r 2 40 9
  f 2 0
  f 3 0
  f 4 0
  a 5 24 9
CALLS
changes 'parse: pool=64bytes', /: 5 objects.*; 3 chunks$/, <<~CALLS, trace: 'chunks'
  malloc 64 r0
  malloc 48 r1
  malloc 48 r2
CALLS
changes 'parse: arena=64bytes', /; 5 chunks, given back 1 time; 0 of 5 objects outlive it$/, <<~CALLS, trace: 'chunks'
  malloc 64 r0
  malloc 64 r1
  malloc 64 r2
  malloc 64 r3
  free r3
  free r2
  free r1
  free r0
  malloc 64 r0
CALLS
changes 'parse: arena', /; 2 chunks, given back 1 time; /, <<~CALLS, trace: 'chunks'
  malloc 4096 r0
  free r0
  malloc 4096 r0
CALLS
# Two calls of parse, which allocates also by insert; main allocates in between.
write('two calls', <<~CALLS)
  a 1 24 9
  a 2 24 11
  a 3 8 8
  a 4 24 9
  a 5 5000 9
  f 1 0
  f 2 0
  f 4 0
  f 5 0
CALLS
changes 'parse: arena', /; 3 chunks, given back 2 times; 2 of 4 objects outlive it$/, <<~CALLS, 'each call has an arena', trace: 'two calls'
  malloc 4096 r0
  malloc 8 r1
  malloc 4096 r2
  malloc 8192 r3
  free r0
  free r3
  free r2
CALLS
changes 'parse itself: arena', /; 1 chunk, given back 1 time; 0 of 3 objects outlive it$/, <<~CALLS, 'a thread has one', trace: 'two calls'
  malloc 65536 r0
  malloc 24 r1
  malloc 8 r2
  free r1
  free r0
CALLS
write('kept', "#{(1..20).map { |at| "a #{at} 24 9\n" }.join}#{(2..20).map { |at| "f #{at} 0\n" }.join}a 30 24 9\n")
_, errors, = change('kept', 'parse itself: arena')
report errors.include?('given back 0 times; 1 of 21 objects outlives it'), 'what outlives the others is told', [errors]

changes 'parse: separate=512bytes', /; 2 chunks, 0 given back$/, <<~CALLS, trace: 'chunks'
  malloc 512 r0
  malloc 480 r1
CALLS
nine = (1..9).map { |at| "a #{at} #{192 + at} 9\n" } + (1..8).map { |at| "f #{at} 0\n" }
write('classes', "#{nine.join}a 10 100000 9\na 11 208 9\nf 10 0\n")
changes 'parse: separate=1664bytes', /: 11 objects.*; 3 chunks, 2 given back$/, <<~CALLS, trace: 'classes'
  malloc 1664 r0
  malloc 1664 r1
  free r0
  malloc 106496 r0
  free r0
CALLS

# --- equal objects ---

write('equal', <<~CALLS)
  a 1 24 9
  a 2 24 9
  a 3 24 10
  a 4 24 9
  f 1 0
  r 4 40 9
  f 2 0
  a 5 24 9
  f 4 0
CALLS
changes 'parse: shared=100%', /: 4 objects.*; 2 are equal to another one$/, <<~CALLS, trace: 'equal'
  malloc 24 r0
  malloc 24 r1
  malloc 40 r2
  free r0
  malloc 24 r0
  free r2
CALLS
write('many', (1..4000).map { |at| "a #{at} 16 9\n" }.join)
change('many', 'parse: shared=75%')
report (850..1150).cover?(calls_of('changed').size), 'a share of the objects is equal to another one'
refuses 'parse: shared', /it has not what is in them: say how many are, shared=75%/, status: 2

# --- the order of changes ---

write('ordered', "a 1 16 9\nr 1 400 10\nr 1 500 10\na 2 8 10\nr 2 80 10\n")
changes 'parse: remove; insert: reserve', /parse: remove: 1 object.*insert: reserve: 1 object/m, 'malloc 80 r0',
        'what one change takes is not reserved elsewhere', trace: 'ordered'
write('sized', "a 1 16 9\nr 1 20 9\nf 1 20\n")
changes 'parse: size=-30', /; 2 sizes would have been less than 0$/, <<~CALLS, trace: 'sized'
  malloc 0 r0
  realloc 0 r0
  free r0
CALLS

# --- threads ---

write('lanes', "l 1\na 1 16 9\nl 2\na 2 16 8\na 3 16 8\na 4 16 8\n")
change('lanes', 'parse: until=1calls')
lines = output_of({}, MALLOCTAPE, 'dump', 'changed').scan(/ (L\d (?:malloc|free)) /).flatten
report lines == ['L1 malloc', 'L2 malloc', 'L1 free', 'L2 malloc', 'L2 malloc'],
       'an object is freed by the thread that made it', [lines.inspect]

write('ended', "l 1\na 1 16 9\nT\nt 20000000 1000 1000\nl 2\na 2 16 8\n")
change('ended', 'parse: until=1ms')
lines = output_of({}, MALLOCTAPE, 'dump', 'changed').scan(/ (L\d \w+)/).flatten
report lines.last(2) == ['L2 free', 'L2 malloc'], 'a thread that has ended frees nothing', [lines.inspect]

# --- what stays ---

# Every kind of call and instruction: a change of sizes that changes none.
golden = Dir[File.expand_path('../golden/instructions-4.0-*', __dir__)].grep_v(/\.dump$/)
others = golden.reject { |path|
  change(path, 'of 0-4000000000: size=x1')[2].exitstatus != 1 && calls_of('changed') == calls_of(path)
}
report golden.size >= 10 && others.empty?, 'what is not changed stays as it is', others

change('trace', 'parse: remove', '--json', 'json', '--quiet')
entry = JSON.parse(File.read('json'))[0]
wanted = { 'objects' => 3, 'bytes' => 174, 'peak_objects' => 2, 'peak_bytes' => 150, 'removed' => 3,
           'calls_left_out' => 6 }
report wanted.all? { |key, value| entry[key] == value }, 'JSON has what matched', [entry.inspect]
report output_of({}, MALLOCTAPE, 'dump', 'changed').include?('what_if=parse: remove'),
       'the changed stream says what it is'

info, = Open3.capture2(MALLOCTAPE, 'info', 'changed')
report info.match?(/^changed code +parse: remove$/) && !info.include?('RSS'),
       'info says that the code is changed, and no memory of the recorded process', [info]
shown, = Open3.capture2(MALLOCTAPE, 'report', '--json', 'json', 'changed')
report shown.include?('with changed code: parse: remove') && shown.match?(/ - +-$/) &&
       JSON.parse(File.read('json'))['what_if'] == 'parse: remove', 'so does report', [shown]
shown, = Open3.capture2(MALLOCTAPE, 'compare', 'changed', '-a', 'glibc', '--runs', '1', '--no-latency')
report shown.include?('with changed code: parse: remove'), 'so does compare', [shown]

# --- mistakes ---

_, errors, status = change('trace', 'parse: remove', '--json', 'changed')
report status.exitstatus == 2 && errors.include?('the same file'), 'OUT and the JSON are two files', [errors]
_, errors, = Open3.capture3(MALLOCTAPE, 'change', 'trace', 'parse: remove', '-o', 'nowhere/out')
report errors.include?('nowhere/out: ') && !errors.include?('trace: '), 'an error of OUT names OUT', [errors]

refuses 'pars: remove', /no function, file or module .* 'pars'; near: Json::parse/
refuses 'insrt: remove', /'insrt'; near: insert/
refuses 'of 1000: remove', /no object in the trace matches/
refuses 'insert > parse: remove', /no object in the trace matches/
refuses 'main itself: reserve', /no object that grows matches .*--skip/
refuses 'parse', /no colon/, status: 2
refuses 'parse: away', /'away' is no change: remove/, status: 2
refuses 'parse: until=60', /'60' is no time/, status: 2
write('sampled', CALLS, stacks: '524288')
refuses 'parse: remove', /the trace has those of samples: malloctape record --stacks=all/,
        trace: 'sampled'

# --- names ---

CODE.sub!('x 3 main', "c 5 0 50\nx 5 app::Cache<std::map<int, int> >::insert\tsrc/app.cc\t12\nn 13 8 5\nx 3 main")
write('named', "a 1 16 13\nf 1 0\n")
['Cache::insert', 'Cache*', 'app.cc:12', 'ap*.cc'].each do |name|
  changes "#{name}: remove", /: 1 object/, '', "#{name} is app::Cache<...>::insert", trace: 'named'
end
refuses '12: remove', /no function/, trace: 'named'

# --- what an attacker, or an allocator that fails, may have written ---

write('failed', "l 1\na 1 16 9\na 2 32 9\nl 2\nR 2 100\nl 1\nf 1 0\nf 2 0\n")
changes 'parse: reserve', /: 1 object,/, "malloc 32 r0\nfree r0",
        'a realloc of a copy fails in another thread', trace: 'failed'
write('huge', "a 1 18446744073709551610 9\nf 1 0\n")
_, errors, status = change('huge', 'parse: pool')
report status.success? && consistent?('changed'), 'a size near 2^64 has a pool', [errors]
write('shrinks', "a 1 4096 9\nr 1 100 9\nf 1 0\n")
refuses 'parse: reserve', /no object that grows/, trace: 'shrinks'
File.write('changed', 'older')
change('trace', 'nothing_here: remove')
report File.read('changed') == 'older' && Dir.glob('.new*').empty?,
       'an older file stays if nothing can be written', []

# --- replayed ---

loop_of = ->(at) { "a #{at} 1000 9\na #{at + 1} 1000 10\n" }
write('grows', (1..20_000).step(2).map(&loop_of).join)
output_of({}, MALLOCTAPE, 'compare', 'grows', '--runs', '2', '--no-latency', '--allocators', 'glibc',
          '--what-if', 'parse: remove', '--json', 'compared', '--html', 'page')
compared = JSON.parse(File.read('compared'))['allocators']
plain, changed = compared
peaks = compared.map { |row| row.dig('numbers', 'peak_net_rss_bytes', 'median') }
report plain['what_if'].nil? && changed['entry'] == 'glibc, parse: remove' &&
       changed.dig('what_if', 'changes', 0, 'peak_objects') == 10_000 && changed['warnings'].empty? &&
       (0.4..0.6).cover?(peaks[1] / peaks[0]),
       'compare --what-if replays both, and says what a change concerns', [peaks.inspect]
write('grows2', (1..24_000).step(2).map(&loop_of).join)
shown = output_of({}, MALLOCTAPE, 'compare', 'grows', 'grows2', '--runs', '1', '--no-latency', '--allocators',
                  'glibc', '--what-if', 'parse: remove')
report shown.match?(/^glibc, parse: remove$/), 'changes of several recordings are told together', [shown]
if system('node --version', out: File::NULL, err: File::NULL)
  drawn = output_of({}, 'node', File.expand_path('../tools/run_page.js', __dir__), 'page')
  report drawn.include?('  glibc if parse: remove |'), 'the page has it, too', [drawn.lines.first(4).join]
else
  report true, 'the page has it, too # SKIP needs node'
end
_, errors, status =
  Open3.capture3(MALLOCTAPE, 'compare', 'grows', '-a', 'glibc', '--what-if', 'pars: remove')
report status.exitstatus == 1 && errors.include?('near: Json::parse'),
       'compare --what-if refuses what matches nothing', [errors]

# A program that writes to the beginning of its buffers, recorded: three pages of each are resident, 3 of 16 MiB.
# The rest of its memory is written to, 4 MiB, and 24 that it maps: the process has more than a replay.
File.write('sparse.c', <<~TEXT)
  #include <stdlib.h>
  #include <string.h>
  #include <sys/mman.h>
  #include <unistd.h>
  __attribute__((noinline)) void *buffer_make(void) { return memset(malloc(65536), 1, 8192); }
  __attribute__((noinline)) void *record_make(void) { return memset(malloc(1024), 1, 1024); }
  __attribute__((noinline)) void *session_make(void) { return memset(malloc(1024), 2, 1024); }
  int main(void)
  {
      memset(mmap(NULL, 24 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 24 << 20);
      for (int i = 0; i < 4096; i++) {
          volatile void *kept = i % 16 == 0 ? session_make() : record_make();
          if (i % 16 == 0) kept = buffer_make();
          if (i % 64 == 0) usleep(2000);
          (void)kept;
      }
      usleep(100000);
      return 0;
  }
TEXT
system(*(ENV['CC'] || 'cc').split, '-O1', '-g', '-o', 'sparse', 'sparse.c') or abort 'Bail out! no compiler'
if system({ 'TCMALLOC_TRACE_OUTPUT' => nil }, MALLOCTAPE, 'record', '--stacks=all', '--allocator=program', '-q', '-o', 'sparse.lz4', '--', './sparse', err: 'errors')
  output_of({}, MALLOCTAPE, 'compare', 'sparse.lz4', '--runs', '2', '--no-latency', '--allocators', 'glibc', '--what-if',
            'buffer_make: remove', '--json', 'sparse.json')
  json = JSON.parse(File.read('sparse.json'))
  is, changed = json['allocators'].map { |row| row.dig('expected', 'peak_rss_bytes') }
  report json.dig('original', 'touched')&.between?(0.05, 0.25) && is && changed && (2.5..3.5).cover?((is - changed) / 1_048_576),
         'of buffers that are left untouched, only what was resident is saved', [json['original'].inspect, is.inspect, changed.inspect]
  text = output_of({}, MALLOCTAPE, 'advise', 'sparse.lz4', '--json', 'sparse.json')
  json = JSON.parse(File.read('sparse.json'))
  one = json['tried'].find { |each| each['change'] == 'buffer_make itself: remove' }
  gains = ->(each) { (each.dig('as_it_is', 'peak_net_rss_bytes') - each.dig('changed', 'peak_net_rss_bytes')) / 1_048_576 }
  saved = one && gains.call(one)
  report json['touched']&.between?(0.05, 0.25) && saved && (2.5..3.9).cover?(saved) &&
         text.match?(/left\s+much\s+of\s+what\s+it\s+allocated\s+untouched/) &&
         json['false_promises'].any? { |each| each['change'] == one['change'] } &&
         gains.call(json['tried'].find { |each| each['change'] == 'record_make itself: separate' }) < 0.5,
         'advise knows that, too, and that the sums promise more', [text, json['touched'].inspect, saved.inspect]

  # What of a large object was resident stays with it: with another size, and in a chunk of its own.
  File.write('large.c', <<~TEXT)
    #include <stdlib.h>
    __attribute__((noinline)) char *table_make(void) { return malloc(8 << 20); }
    int main(void)
    {
        char *table = table_make();
        table[4 << 20] = 1;
        free(table);
        return 0;
    }
  TEXT
  system(*(ENV['CC'] || 'cc').split, '-O1', '-g', '-o', 'large', 'large.c') or abort 'Bail out! no compiler'
  output_of({}, MALLOCTAPE, 'record', '--stacks=all', '--allocator=program', '-q', '-o', 'large.lz4', '--', './large')
  kept = ['size=x2', 'size=x0.75', 'size=1000', 'pool', 'arena', 'separate', 'arena=64MiB'].map { |action|
    output_of({}, MALLOCTAPE, 'change', '-q', 'large.lz4', '-o', 'large.ins', "table_make: #{action}")
    output_of({}, MALLOCTAPE, 'dump', 'large.ins').scan(/L0 touched \d+ (\d+)/).flatten.sum(&:to_i)
  }
  report kept.values_at(0, 1, 3, 4, 5).all? { |pages| pages.between?(1, 3) } && kept.values_at(2, 6) == [0, 0],
         'what of large objects was resident stays', [kept.inspect]
else
  3.times { report true, "of buffers that are left untouched, only what was resident is saved # SKIP #{File.read('errors').lines.last}" }
end
