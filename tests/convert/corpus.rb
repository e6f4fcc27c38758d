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
