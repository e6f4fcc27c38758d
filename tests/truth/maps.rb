#!/usr/bin/env ruby
# maps.rb FILE - compares what a recording of tests/workloads/maps says is mapped, at the moments that
# are marked in it, with what /proc/self/maps said then, which is in FILE. The standard input is what
# `malloctape dump` prints of the ordered recording.
#
# Prints each moment at which they differ, and how many there were. Fails if any does, or is missing.

PAGE = 4096
LINE = / mapping (\w+) thread \d+ at 0x(\h+) bytes (\d+) protection (\d+) flags 0x(\h+)(.*)/.freeze

# What is mapped: ranges [start, end], ascending.
class Ranges
  def initialize = @ranges = []

  def add(from, to)
    at = remove(from, to)
    @ranges.insert(at, [from, to])
  end

  # Returns where a range from `from` on belongs.
  def remove(from, to)
    first = @ranges.bsearch_index { |_, stop| stop > from } || @ranges.size
    behind = first
    behind += 1 while behind < @ranges.size && @ranges[behind][0] < to
    return first if behind == first

    start, stop = @ranges[first][0], @ranges[behind - 1][1]
    rest = [([start, from] if start < from), ([to, stop] if stop > to)].compact
    @ranges[first...behind] = rest
    start < from ? first + 1 : first
  end

  def has?(address) = (@ranges.bsearch { |_, stop| stop > address } || [address + 1])[0] <= address

  def joined
    @ranges.each_with_object([]) do |(from, to), all|
      all.any? && all.last[1] == from ? all.last[1] = to : all << [from, to]
    end
  end
end

told = File.readlines(ARGV[0]).to_h do |line|
  moment, *areas = line.split
  joined = Ranges.new
  areas.each { |area| joined.add(*area.split('-').map(&:hex)) }
  [moment.to_i, joined.joined]
end
ranges = Ranges.new
moved = {}
wrong = 0
seen = []
$stdin.each_line do |line|
  what, at, bytes, protection, _flags, rest = LINE.match(line)&.captures
  next unless what

  from = at.hex
  to = from + ((bytes.to_i + PAGE - 1) / PAGE * PAGE)
  if what == 'advise' && from == 1
    seen << bytes.to_i
    next if told[bytes.to_i] == ranges.joined

    wrong += 1
    puts "moment #{bytes}:"
    puts "  not recorded: #{(told[bytes.to_i] - ranges.joined).first(3)}"
    puts "  not there: #{(ranges.joined - told[bytes.to_i]).first(3)}"
  elsif !rest.include?(' failed')
    thread = line[/thread (\d+)/, 1]
    case what
    when 'map' then protection == '7' ? ranges.add(from, to) : ranges.remove(from, to)
    when 'unmap' then ranges.remove(from, to)
    when 'move_from'
      moved[thread] = ranges.has?(from)
      ranges.remove(from, to)
    when 'move_to' then ranges.add(from, to) if moved[thread]
    end
  end
end
puts "#{told.size} moments, #{wrong} wrong, #{(told.keys - seen).size} missing"
exit wrong.zero? && told.keys == seen && told.size.positive?
