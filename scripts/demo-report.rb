#!/usr/bin/env ruby
# frozen_string_literal: true

# demo-report.rb DEMO-DIR - prints the demo's table and checks its reports against one another.
#
# Reads recorded.json, ordered.json, compare.json and table.txt; the last two are missing if there
# was too little to compare. Events by kind and the objects alive at the end must be the same in all
# of them; otherwise says where they differ and exits with status 1.

require 'json'

def report_read(path)
  JSON.parse(File.read(path))
rescue SystemCallError, JSON::ParserError => e
  abort("demo-report: #{path}: #{e.message}")
end

# 1234567 as "1 234 567".
def grouped(number) = number.round.to_s.reverse.scan(/\d{1,3}/).join(' ').reverse

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
                           .map do |key|
                             "#{name}: #{key}: #{ours[key] || 0}, recorded: #{theirs[key] || 0}"
                           end
end

def notes_print(recorded, ordered, replayed)
  if replayed && ordered['threads'] == 1
    puts 'The program had one thread, so there was no thread cache to switch.'
  end
  puts 'The recording was cut short: its end may be missing.' if ordered['truncated']
  lost = recorded['lost_events']
  puts "#{grouped(lost)} events were lost while recording." if lost > 0
end

dir = ARGV.fetch(0)
recorded = report_read(File.join(dir, 'recorded.json'))
ordered = report_read(File.join(dir, 'ordered.json'))
compare_path = File.join(dir, 'compare.json')
compared = File.exist?(compare_path) ? report_read(compare_path).fetch('allocators') : []
replays = compared.flat_map do |one|
  one.fetch('reports').map { |report| [one.fetch('entry'), report] }
end
abort('demo-report: nothing was replayed') if File.exist?(compare_path) && replays.empty?

differing = differences('ordered', ordered, recorded)
replays.each { |entry, report| differing.concat(differences("replay, #{entry}", report, recorded)) }

puts File.read(File.join(dir, 'table.txt')) unless replays.empty?
notes_print(recorded, ordered, replays.any?)
unless differing.empty?
  warn('', 'DIFFERENT: recording, ordering and replays do not agree.', *differing.uniq)
  exit(1)
end
stages = replays.empty? ? 'Recorded = ordered' : 'Recorded = ordered = replayed'
puts '', "#{stages}: #{grouped(recorded['events'])} events, kind by kind, " \
         "#{grouped(recorded['live_at_end'])} objects alive at the end; " \
         "#{ordered['threads']} thread#{'s' if ordered['threads'] != 1}."
