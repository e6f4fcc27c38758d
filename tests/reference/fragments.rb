#!/usr/bin/env ruby
# fragments.rb - what `malloctape report --under --json` has to say of each snapshot, counted a second
# time: slowly, from the lines of `malloctape dump` and the snapshots of replay, after
# docs/report.md.
#
#   malloctape dump ORDERED | ruby fragments.rb REPORT.json DIRECTORY
#
# The snapshot behind call N is DIRECTORY/N. Prints every key whose value is another one, and fails
# then.
require 'json'

CALL = /\A\h{12} #\d+ L(\d+) (\w+)(.*)\z/
OTHERS = %w[lane thread_begin thread_end thread_cache_deleted freed_twice free_missed touched].freeze

Living = Struct.new(:size, :call, :lane, :address)

# Calls the block behind each call, with its number and the row of live objects: the last one takes
# the place of one that ends.
def follow(lines)
  row = []
  at = {}
  number = 0
  lines.each do |line|
    lane, kind, rest = CALL.match(line)&.captures
    next if lane.nil? || OTHERS.include?(kind)

    number += 1
    change(row, at, rest, Living.new(nil, number, lane.to_i)) unless rest.end_with?(' failed')
    yield number, row
  end
end

def change(row, at, rest, made)
  names, brought = rest.sub(/ at 0x\h+/, '').split(' -> ')
  words = (names || '').split
  ended = words.shift if words[0] == '?' || words[0]&.start_with?('r')
  made.size = words[0].to_i
  if brought && at[ended]
    row[at[ended]][1] = made
    at[brought.split.first] = at.delete(ended)
    row[at[brought.split.first]][0] = brought.split.first
  elsif brought
    at[brought.split.first] = row.size
    row << [brought.split.first, made]
  elsif (gap = at.delete(ended))
    last = row.pop
    return if gap == row.size

    row[gap] = last
    at[last[0]] = gap
  end
end

def snapshot(path)
  magic, page_bytes, objects, pages, *rest = File.binread(path).unpack('Q<*')
  abort "#{path}: no snapshot" unless magic == 0x50414e535041544d && rest.size == objects + pages
  [page_bytes, rest.first(objects), rest.drop(objects)]
end

# What a page of the heap holds: pairs of an object and its bytes there.
def fill(pages, objects, page_bytes)
  held = pages.to_h { |page| [page, []] }
  objects.each do |one|
    (one.address / page_bytes * page_bytes).step(one.address + [one.size, 1].max - 1,
                                                 page_bytes) do |page|
      bytes = [one.address + one.size, page + page_bytes].min - [one.address, page].max
      held[page] << [one, bytes] if held.key?(page)
    end
  end
  held
end

def blame(pairs)
  objects = pairs.map(&:first)
  { 'objects' => objects.size, 'bytes' => objects.sum(&:size), 'kept_bytes' => pairs.sum(&:last),
    'first_call' => objects.map(&:call).min || 0, 'last_call' => objects.map(&:call).max || 0 }
end

def blames(pairs, key)
  groups = pairs.group_by { |one, _| one[key] }
  rows = groups.map { |what, some| { key.to_s => what }.merge(blame(some)) }
  most = rows.sort_by { |row| [-row['kept_bytes'], row[key.to_s]] }.first(20)
  [key.to_s, *blame([]).keys].to_h { |column| [column, most.map { |row| row[column] }] }
end

def counted_in(call, row, path)
  page_bytes, addresses, pages = snapshot(path)
  abort "#{path}: #{addresses.size} objects instead of #{row.size}" if addresses.size != row.size
  objects = row.zip(addresses).map { |(_, one), at| one.dup.tap { |copy| copy.address = at } }
  in_order = objects.sort_by(&:address)
  overlapping = in_order.each_cons(2).count { |a, b| a.address + a.size > b.address }
  abort "#{path}: #{overlapping} objects lie in each other" if overlapping.positive?
  held = fill(pages, objects, page_bytes)
  live = held.transform_values { |pairs| pairs.sum(&:last) }
  fullness = held.to_h do |page, pairs|
    [page, pairs.empty? ? 0 : [(live[page] * 16).fdiv(page_bytes).ceil.clamp(1, 16)].max]
  end
  cell = pages.size / 4096 + 1
  { 'call' => call, 'page_bytes' => page_bytes, 'pages' => pages.size, 'objects' => objects.size,
    'live_bytes' => live.values.sum,
    'pages_by_fullness' => (0..16).map { |full| fullness.values.count(full) },
    'sparse' => sparse(call, held.select { |page, _| (1..4).cover?(fullness[page]) }, live,
                       page_bytes),
    'map' => { 'pages_per_cell' => cell, 'live_per_mille' => pages.each_slice(cell).map do |some|
      1000 * some.sum { |page| live[page] } / (some.size * page_bytes)
    end } }
end

def sparse(call, held, live, page_bytes)
  kept = Hash.new(0).compare_by_identity
  held.each do |page, pairs|
    pairs.each { |one, _| kept[one] += (page_bytes - live[page]) / pairs.size }
  end
  pairs = kept.to_a
  ages = [0] * 64
  pairs.each { |one, bytes| ages[one.call * 64 / (call + 1)] += bytes }
  calls = pairs.map { |one, _| one.call }.sort
  oldest = [0.01, 0.1, 0.5].map do |part|
    limit = calls[(part * calls.size).to_i - 1] if (part * calls.size).to_i.positive?
    limit ? page_bytes * held.count { |_, all| all.all? { |one, _| one.call <= limit } } : 0
  end
  { 'pages' => held.size, 'by_size' => blames(pairs, :size), 'by_lane' => blames(pairs, :lane),
    'by_age' => ages, 'without_oldest' => oldest }.merge(blame(pairs))
end

report, directory = ARGV
told = JSON.parse(File.read(report))['under']['snapshots'].to_h { |one| [one['call'], one] }
wrong = told.keys
follow($stdin.each_line(chomp: true)) do |call, row|
  next unless told.key?(call)

  counted = counted_in(call, row, File.join(directory, call.to_s))
  wrong.delete(call)
  counted.each do |key, value|
    next if told[call][key] == value

    wrong << call
    given, right = [told[call][key], value].map { |one| one.to_json[0, 400] }
    puts "call #{call}, #{key}: #{given} instead of #{right}"
  end
end
exit wrong.empty?
