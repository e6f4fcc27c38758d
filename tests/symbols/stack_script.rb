# frozen_string_literal: true

# stack_script.rb - a program's calls with call stacks, as text for write_stacks; and what they add up
# to, counted a second time, object by object.

# A call stack is a list of functions, the innermost first.
Function = Struct.new(:name, :file, :line) do
  def library? = name.start_with?('std::', '__gnu_cxx::', 'core::', 'alloc::')
  def allocates? = ['malloc', 'free', 'operator new', 'operator delete'].include?(name)
end

Made = Struct.new(:size, :stack, :call, :lane, :grown, :ended, :ended_lane, :freed) # by a stack

class StackScript
  attr_reader :objects, :text, :peak_call

  # `keep` says of a call whether its stack is recorded.
  def initialize(stacks = 'all', metadata: {}, &keep)
    @keep = keep || ->(_) { true }
    @text = +"w program=/usr/bin/sample\nw pid=4711\nw start=1700000000\nw stacks=#{stacks}\n"
    metadata.each { |key, value| @text << "w #{key}=#{value}\n" }
    @codes = {}
    @nodes = {}
    @live = {}
    @objects = []
    @by_malloc = {} # by stack
    @latest = Hash.new { |all, lane| all[lane] = [] } # calls, each what it made or nil
    @call = @lane = @bytes = @peak = @peak_call = 0
  end

  def lane(number)
    @text << "l #{number}\n" if number != @lane
    @lane = number
  end

  def allocate(name, size, stack)
    @call += 1
    put('a', name, size, stack)
    begin_object(name, size, stack, nil)
    @latest[@lane] << @objects.last
    (@by_malloc[stack] ||= []) << @objects.last
  end

  def reallocate(name, size, stack)
    @call += 1
    put('r', name, size, stack)
    @latest[@lane] << nil
    before = end_object(name).size
    begin_object(name, size, stack, [size - before, 0].max)
  end

  def free(name, stack = [])
    @call += 1
    number = stack.any? && @keep.(nil) ? node(stack) : 0
    @text << "f #{name} #{number}\n"
    note_growth(@live[name])
    @latest[@lane] << nil
    end_object(name).freed = stack
  end

  def tick = @text << "t 10000000 4096000 4096000\n"

  def write(path)
    IO.popen(["#{BUILD}/tests/symbols/write_stacks", { out: path }], 'w') { |to| to << @text }
    raise 'write_stacks failed' unless $?.success?
  end

  # What the keys of JSON are of these objects; the others are not there.
  def self.sums(objects, peak_call)
    pair = ->(list) { [list.size, list.sum(&:size)] }
    at_peak = objects.select { |o| o.call <= peak_call && (o.ended.nil? || o.ended > peak_call) }
    grown = objects.select { |o| o.grown&.positive? }
    { %w[made bytes] => pair.(objects), %w[peak_objects peak_bytes] => pair.(at_peak),
      %w[end_objects end_bytes] => pair.(objects.reject(&:ended)),
      %w[short_lived] => [objects.count { |o| o.ended && o.ended - o.call <= 100 }],
      %w[grown grown_bytes] => [grown.size, grown.sum(&:grown)],
      %w[remote_frees] => [objects.count { |o| o.ended && o.ended_lane != o.lane }] }
      .flat_map { |keys, values| keys.zip(values) }.to_h
  end

  # The same of those that were freed.
  def self.sums_of_frees(objects)
    remote = objects.count { |o| o.ended_lane != o.lane }
    { 'freed' => objects.size, 'freed_bytes' => objects.sum(&:size), 'freed_remote' => remote }
  end

  def sums_by(&) = @objects.group_by(&).transform_values { |of| StackScript.sums(of, @peak_call) }

  # The stack without what allocates, and the function that it counts for.
  def self.shown(stack)
    shown = stack.drop_while(&:allocates?)
    shown.empty? ? stack.last(1) : shown
  end

  def self.own(stack) = shown(stack).find { |one| !one.library? } || shown(stack).first

  private

  def put(letter, name, size, stack)
    number = @keep.(size) ? node(stack) : 0
    @text << "#{letter} #{name} #{size} #{number}\n"
  end

  def node(stack)
    return 0 if stack.empty?

    @nodes[stack] ||= begin
      parent = node(stack.drop(1))
      code = code(stack.first)
      number = @nodes.size + 8
      @text << "n #{number} #{parent} #{code}\n"
      number
    end
  end

  # Codes that follow each other may stand for functions that are inlined; here each has its own.
  def code(function)
    @codes[function] ||= begin
      number = @codes.size + 1
      @text << "c #{number} 0 #{(number * 16).to_s(16)}\n" \
               "x #{number} #{function.to_a.join("\t")}\n"
      number
    end
  end

  def begin_object(name, size, stack, grown)
    @objects << (@live[name] = Made.new(size, stack, @call, @lane, grown))
    @bytes += size
    return if @bytes <= @peak

    @peak = @bytes
    @peak_call = @call
  end

  # As a container grows: it makes a larger object, copies, and frees the smaller one.
  def note_growth(smaller)
    return if smaller.stack.empty? || smaller.lane != @lane

    larger = @latest[@lane].last(4).compact.find do |one|
      one.stack == smaller.stack && one.grown.nil? && one.size > smaller.size &&
        one.size >= smaller.size + (smaller.size / 2) &&
        (one == @latest[@lane].last || follows?(one, smaller))
    end
    larger.grown = larger.size - smaller.size if larger
  end

  def follows?(one, before)
    made = @by_malloc.fetch(one.stack, [])
    at = made.index { |o| o.equal?(one) }
    at&.positive? && made[at - 1].equal?(before)
  end

  def end_object(name)
    @bytes -= @live[name].size
    @live.delete(name).tap { |object| object.ended, object.ended_lane = @call, @lane }
  end
end
