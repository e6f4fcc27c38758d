#!/usr/bin/env ruby
# corpus.rb DIRECTORY - what the fuzzers of readers begin with: in DIRECTORY/import-FORMAT small
# files of each format.

require 'fileutils'
require_relative 'program'
require_relative 'writers'

# Which programs a format can hold.
PLAIN = { kinds: %i[malloc], reallocs: false }.freeze
SOME = { kinds: %i[malloc memalign], unit: 8 }.freeze

FORMATS = {
  'rep' => [{}, Writers.method(:rep)],
  'mtrace' => [{}, Writers.method(:mtrace)],
  'memory_replay' => [{}, Writers.method(:memory_replay)],
  'dj_mtrace' => [{}, Writers.method(:dj_mtrace), ->(one) { Writers.dj_mtrace(one, wide: false) }],
  'wl' => [{}, Writers.method(:wl)],
  'ops' => [SOME, Writers.method(:ops)],
  'microbench' => [PLAIN, Writers.method(:microbench)],
  'heaptrack' => [PLAIN, Writers.method(:heaptrack)],
  'logalloc' => [{}, Writers.method(:logalloc), ->(one) { Writers.logalloc(one, munged: true) }],
  'wip_processed' => [SOME, Writers.method(:wip_processed)],
  'wip_raw' => [SOME, ->(one) { WipRaw.new(one).to_s }]
}.freeze

# What the writers have not: call stacks.
STACKS = {
  # Of a file that is mapped again elsewhere.
  'heaptrack/stacks' => ['v 10400 3', 'x b /bin/a prog', 'm 1 -', 'm 1 x 400000 1000 200 2000 10',
                         'm 6 lib.so 70000 0 100', 't 401010 0', 't 70020 1', 't 999 2', '+ 18 3 a000',
                         '+ 19 2 b000', 'm 1 -', 'm 1 x 400000 1000 200', 'm 6 lib.so 80000 0 100',
                         't 80020 1', 't 401010 4', '+ 1a 5 c000', '- a000', '+ 1b 0 d000'],
  # As heaptrack's interpreter writes it: names, but no objects.
  'heaptrack/interpreted' => ['v 10400 3', 'X ./a', 's 6 /bin/a', 's 8 run(int)', 's 4 main', 's 3 a.c',
                              'i 401010 1 2 4 7 3 4 9', 'i 401020 1', 't 2 0', 't 1 1', 'a 18 2', 'a 19 0',
                              '+ 0', '+ 0', '+ 1', 'c 14', '- 0', '+ 0', '- 1']
}.freeze

FORMATS.each do |name, (keeps, *writers)|
  directory = "#{ARGV[0]}/import-#{name}"
  FileUtils.mkdir_p(directory)
  [[1, 5], [2, 20], [3, 100]].each do |threads, count|
    program = Program.new(threads, threads: threads, count: count, **keeps)
    writers.each_with_index do |writer, i|
      File.binwrite("#{directory}/program#{threads}.#{i}", writer.call(program))
    end
  end
end

STACKS.each do |name, lines|
  File.write("#{ARGV[0]}/import-#{name}", lines.map { |line| "#{line}\n" }.join)
end
