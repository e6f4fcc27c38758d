#!/usr/bin/env ruby
# frozen_string_literal: true

# demo-report.rb DEMO-DIR - checks the demo's reports against one another and prints its table.
#
# Reads recorded.json, ordered.json and replay-NAME-RUN.json. Events by kind and the objects alive at the end must
# be the same in all of them; otherwise says where they differ and exits with status 1.

require 'json'

# What a reader should know of each way to replay, in the order of the table.
MODES = {
  'tcmalloc' => 'tcmalloc, switching thread caches',
  'tcmalloc-noswitch' => 'tcmalloc, one thread cache',
  'system' => "the system's malloc",
  'jemalloc' => 'jemalloc',
  'mimalloc' => 'mimalloc',
  'null' => 'none: the cost of replaying itself'
}.freeze

def report_read(path)
  JSON.parse(File.read(path))
rescue SystemCallError, JSON::ParserError => e
  abort("demo-report: #{path}: #{e.message}")
end

# 1234567 as "1 234 567".
def grouped(number) = number.round.to_s.reverse.scan(/\d{1,3}/).join(' ').reverse

def mebibytes(bytes) = format('%.1f MiB', bytes / 1048576.0)

# What must be the same everywhere. Kinds that did not occur may be left out of a report.
def totals(report)
  { 'events' => report.fetch('events'),
    'live objects at the end' => report.fetch('live_at_end'),
    **report.fetch('by_kind').reject { |_, count| count.zero? } }
end

# The ways in which `report` differs from `original`, as sentences.
def differences(name, report, original)
  ours = totals(report)
  theirs = totals(original)
  (theirs.keys | ours.keys).reject { |key| ours[key] == theirs[key] }
                           .map { |key| "#{name}: #{key}: #{ours[key] || 0}, recorded: #{theirs[key] || 0}" }
end

# Replays by mode, each with its runs.
def replays_read(dir)
  MODES.keys.to_h { |mode| [mode, Dir[File.join(dir, "replay-#{mode}-[0-9].json")].sort.map { |path| report_read(path) }] }
       .reject { |_, runs| runs.empty? }
end

# The run of median wall time.
def median_run(runs) = runs.sort_by { |run| run['wall_seconds'] }[runs.size / 2]

def table_row(mode, run)
  switches = run['thread_switches']
  [MODES[mode], grouped(run['events']), format('%.3f s', run['wall_seconds']), grouped(run['events_per_second']),
   mode == 'null' ? '-' : mebibytes(run['peak_rss_bytes']), switches.zero? ? '-' : grouped(switches)]
end

def table_print(rows)
  widths = rows.transpose.map { |column| column.map(&:length).max }
  rows.each do |row|
    first, *others = row.zip(widths)
    puts [first[0].ljust(first[1]), *others.map { |text, width| text.rjust(width) }].join('   ').rstrip
  end
end

def notes_print(recorded, ordered)
  if ordered['threads'] == 1
    puts '', 'The program had one thread, so there was no thread cache to switch: the tcmalloc rows measure the same.'
  end
  puts '', 'The trace is cut short: the program did not end by itself.' if ordered['truncated']
  lost = recorded['lost_events'].to_i
  puts '', "#{grouped(lost)} events were lost while recording." if lost > 0
end

dir = ARGV.fetch(0)
recorded = report_read(File.join(dir, 'recorded.json'))
ordered = report_read(File.join(dir, 'ordered.json'))
replays = replays_read(dir)
abort('demo-report: nothing was replayed') if replays.empty?

differing = differences('ordered', ordered, recorded)
replays.each { |mode, runs| runs.each { |run| differing.concat(differences("replay, #{mode}", run, recorded)) } }

table_print([['allocator', 'events', 'wall time', 'events/s', 'peak RSS', 'thread switches'],
             *replays.map { |mode, runs| table_row(mode, median_run(runs)) }])
notes_print(recorded, ordered)
unless differing.empty?
  warn('', 'DIFFERENT: what was recorded, ordered and replayed is not the same.', *differing.uniq)
  exit(1)
end
puts '', "Recorded = ordered = replayed: #{grouped(recorded['events'])} events, kind by kind, " \
         "#{grouped(recorded['live_at_end'])} objects alive at the end; #{ordered['threads']} thread#{'s' if ordered['threads'] != 1}."
