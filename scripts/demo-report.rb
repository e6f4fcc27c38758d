#!/usr/bin/env ruby
# frozen_string_literal: true

# demo-report.rb DEMO-DIR - checks the demo's reports against one another and prints its table.
#
# Reads recorded.json, ordered.json and replay-NAME-RUN.json. Events by kind and the objects alive at the end must
# be the same in all of them; otherwise says where they differ and exits with status 1.

require 'json'

# The ways to replay, in the order of the table, and what the allocator's name does not say about them.
MODES = {
  'tcmalloc' => ', thread caches switched',
  'tcmalloc-noswitch' => ', one thread cache',
  'system' => '',
  'jemalloc' => '',
  'mimalloc' => '',
  'null' => ' (the cost of replaying itself)'
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

# "jemalloc (5.3.0-0-g54eaed1d...)" as "jemalloc 5.3.0"; engine null replays under none.
def allocator_name(run) = run['allocator'].sub(/ \((\d[\d.]*)[^)]*\)/, ' \1')

def table_row(mode, run)
  switches = run['thread_cache_switching'] ? run['thread_switches'] : 0
  [allocator_name(run) + MODES[mode], grouped(run['events']), format('%.4f s', run['wall_seconds']),
   grouped(run['events_per_second']), mode == 'null' ? '-' : mebibytes(run['peak_rss_bytes']),
   switches.zero? ? '-' : grouped(switches)]
end

def table_print(rows)
  widths = rows.transpose.map { |column| column.map(&:length).max }
  rows.each do |row|
    first, *others = row.zip(widths)
    puts [first[0].ljust(first[1]), *others.map { |text, width| text.rjust(width) }].join('   ').rstrip
  end
end

NOTE = <<~TEXT
  Wall time is that of the calls alone, without reading the trace; the median run is shown. Peak RSS leaves
  out what the program wrote into its objects: a replay does not, so pages that only the program would have
  touched are not there.
TEXT
NOTE_ONE_THREAD = <<~TEXT
  The program had one thread, so there was no thread cache to switch: both tcmalloc lines measure the same.
TEXT
NOTE_THREADS = <<~TEXT
  Where no thread switches are shown, the calls of all threads went through one thread cache.
TEXT

def notes_print(recorded, ordered)
  puts '', NOTE, ordered['threads'] == 1 ? NOTE_ONE_THREAD : NOTE_THREADS
  puts 'The trace is cut short: it ends before the program did.' if ordered['truncated']
  lost = recorded['lost_events']
  puts "#{grouped(lost)} events were lost while recording." if lost > 0
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
