#!/usr/bin/env ruby
# frozen_string_literal: true

# advise_test.rb - `malloctape advise`: on small streams, which changes it finds, what it says of them,
# and which promises it calls false.

require 'fileutils'
require 'json'
require 'open3'
require 'tmpdir'
require_relative '../tap'

MALLOCTAPE = "#{BUILD}/bin/malloctape"

# Nodes: 8 main, 9 main > journal_add, 10 main > session_make, 11 main > node_add,
# 12 main > Table<int>::grow, 13 main > lookup, 14 main > parse, 15 main > parse > tree_node,
# 16 main > parse > text_copy, 17 main > app.<module>, 18 main > <row::Rows<T> as Extend>::extend.
CODE = <<~TEXT
  c 1 0 10
  x 1 main	src/main.c	3
  c 2 0 20
  x 2 journal_add	src/main.c	12
  c 3 0 30
  x 3 session_make	src/main.c	22
  c 4 0 40
  x 4 node_add	src/main.c	32
  c 5 0 50
  x 5 Table<int>::grow	src/main.c	42
  c 6 0 60
  x 6 lookup	src/main.c	52
  c 7 0 70
  x 7 parse	src/main.c	62
  c 8 0 80
  x 8 tree_node	src/main.c	72
  c 9 0 90
  x 9 text_copy	src/main.c	82
  c 10 0 a0
  x 10 app.<module>	src/app.py	1
  c 11 0 b0
  x 11 <row::Rows<T> as Extend>::extend	src/row.rs	2
  n 8 0 1
  n 9 8 2
  n 10 8 3
  n 11 8 4
  n 12 8 5
  n 13 8 6
  n 14 8 7
  n 15 14 8
  n 16 14 9
  n 17 8 10
  n 18 8 11
TEXT

def write(path, calls, stacks: 'all')
  words = "w stacks=#{stacks}\nw allocator=glibc 2.36\n"
  output, status = Open3.capture2("#{BUILD}/tests/symbols/write_stacks", stdin_data: "#{words}#{CODE}#{calls}")
  abort 'Bail out! write_stacks failed' unless status.success?
  File.binwrite(path, output)
end

def advise(trace, *options)
  Open3.capture3(MALLOCTAPE, 'advise', trace, *options)
end

# The text, and the JSON, of a trace; the test ends if there are none.
def advice(calls)
  write('trace', calls)
  text, errors, status = advise('trace', '--json', 'json')
  abort "Bail out! advise failed: #{errors}" unless status.success?
  [text, JSON.parse(File.read('json'))]
end

def changes_of(list) = list.map { |one| one['change'] }

plan 17
Dir.chdir(ENV['TMPDIR'] = Dir.mktmpdir)
at_exit { Dir.chdir('/') && FileUtils.rm_rf(ENV.fetch('TMPDIR')) }

# A leak among sessions that come and go; the program frees all but the leak.
leak = (0...6000).map do |at|
  "a #{at % 500} 300 10\na #{1000 + at} 400 9\nf #{at % 500} 0\n"
end
text, json = advice(leak.join)
first = json['best'][0]
report first['change'] == 'journal_add itself: until=60objects' && first['kind'] == 'leak' &&
       first.dig('changes', 0, 'outlived').zero? && first['turns'] == 5 && first['unsure_peak_bytes'] < 1 << 20 &&
       first.dig('changed', 'peak_net_rss_bytes') < 0.5 * first.dig('as_it_is', 'peak_net_rss_bytes') &&
       text.match?(/^ +1 +-2\.\d .*journal_add itself: until=60objects$/),
       'a leak is found, and what mending it saves', [text]

# Nodes in pairs, which are never freed: no leak, as the program frees nothing. On a busy machine replays
# of a change may take much longer than others by chance: then nothing is gained.
pairs = (0...8000).map { |at| "a #{at} 200 10\na #{10_000 + at} 24 11\n" }.join
wanted = ['node_add itself: remove', 'node_add itself: remove; session_make itself: size=+24']
json = nil
5.times do
  _, json = advice(pairs)
  break if changes_of(json['best']).first(2) == wanted
end
report changes_of(json['best']).first(2) == wanted &&
       changes_of(json['tried']).none? { |one| one.include?('until') },
       'objects made in pairs are found, and no leak where nothing is freed', [json['best'].inspect]

# Nodes that are made after something else is gone again cannot be a part of that.
_, json = advice((0...8000).map { |at| "a 20000 200 10\nf 20000 0\na #{at} 24 11\n" }.join)
report (json['tried'].map { |one| one['kind'] } & %w[pair needless]).empty? && !json['tried'].empty?,
       'what is gone makes no pair', [changes_of(json['tried']).inspect]

# A container that copies; the name of a template is a pattern without its arguments.
grows = (0...300).map do |at|
  (4..12).map { |power| "a #{at + (power * 1000)} #{1 << power} 12\n#{"f #{at + ((power - 1) * 1000)} 0\n" if power > 4}" }
end
_, json = advice(grows.join)
report changes_of(json['tried']).include?('Table::grow itself: reserve'), 'containers that grow are found',
       [changes_of(json['tried']).inspect]

# Names with other brackets than those of templates are patterns as they are.
whole = (0...400).map { |at| "a #{at} 40 #{17 + (at % 2)}\n#{(1..4).map { |i| "r #{at} #{40 << i} #{17 + (at % 2)}\n" }.join}" }
_, json = advice(whole.join)
wanted = ['app.<module> itself: reserve', '<row::Rows<T> as Extend>::extend itself: reserve']
counts = json['tried'].select { |one| wanted.include?(one['change']) }.map { |one| one.dig('changes', 0, 'objects') }
report counts == [200, 200], 'modules of Python and methods of Rust keep their brackets, and match',
       [changes_of(json['tried']).inspect, counts.inspect]
gains = lambda do |one|
  is, changed = one.values_at('as_it_is', 'changed')
  %w[peak mean end].any? { |key| is["#{key}_net_rss_bytes"] - changed["#{key}_net_rss_bytes"] > 0.004 * is["#{key}_net_rss_bytes"] }
end
report json['tried'].all? { |one| [true, false].include?(one['faster']) } &&
       json['best'].all? { |one| one['faster'] || gains.(one) },
       'what gains time alone did so in each of its replays', [json['best'].inspect]

# Three short lives for each call of lookup; sizes of a class; a tree with texts, all freed together.
mixed = (0...400).map do |at|
  tree = (0...10).map { |node| "a #{2000 + node} 40 15\na #{3000 + node} 56 16\n" }
  freed = (0...10).map { |node| "f #{2000 + node} 0\nf #{3000 + node} 0\n" }
  "a #{at} 153 10\na 1000 64 13\nf 1000 0\n#{tree.join}#{freed.join}"
end
_, json = advice(mixed.join)
tried = json['tried'].to_h { |one| [one['change'], one] }
report tried.key?('lookup itself: remove') && tried['lookup itself: remove']['kind'] == 'temporary',
       'objects that are soon gone are found', [tried.keys.inspect]
report tried.key?('session_make itself of 153: size=-1'), 'sizes just above a class are found', [tried.keys.inspect]
arena = tried['parse: arena']
report arena && arena['kind'] == 'together' && arena.dig('changes', 0, 'given_back') == 400 &&
       tried.none? { |change, _| change.start_with?('main:') },
       'objects that end together are found, below the function that has them all', [tried.keys.inspect]
lookup = tried['lookup itself: remove']
report lookup.dig('changed', 'events') == lookup.dig('as_it_is', 'events') - 800, 'calls are counted',
       [lookup.inspect]

# The same tree, of which one node of each document is kept: an arena is never given back.
outlive = lambda { |bytes|
  (0...300).map do |at|
    tree = (0...30).map { |node| "a #{at + (node * 1000)} #{bytes} 15\n" }
    freed = (1...30).map { |node| "f #{at + (node * 1000)} 0\n" }
    tree.join + freed.join
  end
}
text, json = advice(outlive.call(200).join)
report changes_of(json['best']).grep(/arena/).empty? && changes_of(json['false_promises']) == ['tree_node itself: arena'] &&
       text.match?(/look good by sums.*tree_node itself: arena: .*given back 0\s+times/m),
       'an arena that something outlives is a false promise', [text]

text, json = advice(outlive.call(16_000).join)
arena = json['false_promises'].find { |one| one['change'] == 'tree_node itself: arena' }
report arena && arena['replayed'] == false && text.match?(/arena: .*by\s+sums;\s+it\s+would\s+take\s+1\d\d\.\d\s+MiB\s+more/),
       'an arena that would take far more is not replayed', [text]

# Of a trace with which nothing can be gained, the first replay takes 4 MiB more: no advice.
File.write('jitter.c', <<~TEXT)
  #define _GNU_SOURCE
  #include <fcntl.h>
  #include <stdlib.h>
  #include <string.h>
  #include <sys/mman.h>
  #include <unistd.h>
  void *__libc_malloc(size_t);
  static unsigned calls, more;
  __attribute__((constructor)) static void count_runs(void)
  {
      int file = open("#{Dir.pwd}/runs", O_WRONLY | O_CREAT | O_APPEND, 0600);
      if (write(file, "x", 1) == 1) more = lseek(file, 0, SEEK_CUR) == 1;
      close(file);
  }
  void *malloc(size_t size)
  {
      if (++calls == 3000 && more) memset(mmap(NULL, 4 << 20, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 4 << 20);
      return __libc_malloc(size);
  }
TEXT
system(*(ENV['CC'] || 'cc').split, '-O1', '-fno-builtin', '-shared', '-fPIC', '-o', 'jitter.so', 'jitter.c') or abort 'Bail out! no compiler'
write('trace', (0...102_000).map { |at| "#{"f #{at % 2000} 0\n" if at >= 2000}a #{at % 2000} 96 10\n" }.join)
text, errors, status = advise('trace', '--allocator', './jitter.so', '--json', 'json')
abort "Bail out! advise failed: #{errors}" unless status.success?
best = JSON.parse(File.read('json'))['best'].select { |one| one.dig('as_it_is', 'peak_net_rss_bytes') - one.dig('changed', 'peak_net_rss_bytes') > 3 << 20 }
report best.empty?, 'what a single replay has more is no gain', [text, File.size('runs').to_s]

# --- mistakes ---

write('none', "a 1 16 9\n", stacks: '524288')
_, errors, status = advise('none')
report status.exitstatus == 1 && errors.include?('none: advise needs the call stacks of all calls'),
       'samples of stacks are refused', [errors]
_, errors, status = advise('trace', '--allocator', 'malloc9')
report status.exitstatus == 2 && errors.include?("no allocator 'malloc9'"), 'an unknown allocator is refused', [errors]
_, errors, status = advise('trace', '--json', 'trace')
report status.exitstatus == 2 && errors.include?('both read and written'), 'the trace is spared', [errors]
write('trace', "a 1 16 9\nf 1 0\n")
text, = advise('trace')
report text.include?('None of them gains anything.'), 'where there is nothing to gain, it says so', [text]
