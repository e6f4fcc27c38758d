# ruby_witness.rb CALLS NOTES - a program that notes the Ruby stacks of its own allocations.
#
# Each of its threads asks malloc for objects of a size of its own, from everything that Ruby has:
# fibers, blocks, exceptions, recursion, callbacks of C, code that is made and dies, objects that
# move. What is noted is as in python_witness.py. Methods are called w_... but for what Ruby itself calls,
# so that they can be told from those of C, which have the file and line of their callers.

require 'fiddle'
require 'json'
require 'monitor'
require 'tempfile'
require 'zlib'

CALLS = Integer(ARGV[0])
NOTES = ARGV[1]
WITHOUT_LOCK = Fiddle::Function.new(Fiddle::Handle::DEFAULT['malloc'], [Fiddle::TYPE_SIZE_T],
                                    Fiddle::TYPE_VOIDP)
OWN = /\A((block|rescue|ensure)( \(\d+ levels\))? in )*(w_\w+|<.*>|initialize|method_missing|<=>|to_json)\z/

def w_stack(locations)
  locations.select { |at| at.path.to_s.start_with?('<internal:') || OWN.match?(at.label) }
           .map { |at| "#{at.label}:#{at.lineno}" }.join(';')
end

# What one thread has noted.
class Noted
  attr_reader :size, :noted, :stacks

  def initialize(size, most)
    @size = size
    @most = most
    @noted = []
    @stacks = {}
  end

  def w_ask
    if (@noted.size % 16).zero?
      at, from = WITHOUT_LOCK.call(@size), caller_locations(0)
    else
      at, from = Fiddle.malloc(@size), caller_locations(0)
    end
    Fiddle.free(at.to_i)
    w_note(from)
  end

  def w_note(from)
    key = w_stack(from)
    @noted << (@stacks[key] ||= (@size * 1_000_000) + @stacks.size)
  end

  def w_done?
    @noted.size >= @most
  end
end

def w_recursion(thread, depth)
  return thread.w_ask if depth.zero?

  depth.odd? ? [depth].each { |d| w_recursion(thread, d - 1) } : w_recursion(thread, depth - 1)
end

def w_raising(thread, depth)
  raise ArgumentError if depth.zero?

  [1].each { w_raising(thread, depth - 1) }
rescue ArgumentError
  thread.w_ask
  raise
ensure
  thread.w_ask
end

def w_caught(thread)
  tries = 0
  begin
    tries += 1
    w_raising(thread, 3)
  rescue ArgumentError
    thread.w_ask
    retry if tries < 2
  end
  catch(:found) { [1, 2].each { |i| i == 2 ? throw(:found) : thread.w_ask } }
  [1, 2].each { |_| break thread.w_ask }
  (Integer('no') rescue thread.w_ask)
  w_returns(thread)
end

def w_returns(thread)
  [3].each { |_| return thread.w_ask }
ensure
  thread.w_ask
end

class WBase
  include Comparable

  def initialize(thread)
    @thread = thread
    thread.w_ask
  end

  def w_called(*, key: 1)
    @thread.w_ask
    yield key if block_given?
  end

  def <=>(_other)
    @thread.w_ask
    0
  end

  def to_json(*)
    @thread.w_ask
    '1'
  end
end

class WDerived < WBase
  define_method(:w_defined) { |count = 2| count.times { @thread.w_ask } }
  class_eval("def w_made; @thread.w_ask; end\n", 'w_eval', 70)

  def w_called(*rest, **)
    super(*rest, **{}) { |_| @thread.w_ask }
    super { @thread.w_ask }
  end

  def method_missing(name, *)
    name == :w_missing ? @thread.w_ask : super
  end

  def respond_to_missing?(*)
    true
  end
end

def w_methods(thread)
  object = WDerived.new(thread)
  object.w_called(1, 2)
  object.w_defined
  object.w_made
  object.w_missing
  object.send(:w_called) { thread.w_ask }
  object.method(:w_defined).to_proc.call(1)
  object.instance_exec { @thread.w_ask }
  object.define_singleton_method(:w_own) { thread.w_ask }
  object.w_own
  object.tap { |same| same.then { thread.w_ask } }
end

def w_called_by_c(thread)
  [WBase.new(thread), WBase.new(thread)].sort
  [3, 1, 2].sort_by { |i| thread.w_ask; i }
  { 1 => 2 }.each_pair { |_, _| thread.w_ask }
  Hash.new { |_, _| thread.w_ask }[1]
  'abc'.gsub(/b/) { thread.w_ask; 'x' }
  JSON.generate([WBase.new(thread)])
  Zlib::Inflate.inflate(Zlib::Deflate.deflate('x' * 10_000))
  [1].map(&->(_) { thread.w_ask })
  MON.synchronize { thread.w_ask }
  eval('thread.w_ask; [1].each { thread.w_ask }', binding, '<w_eval>', 9)
  Module.new.module_eval { thread.w_ask }
end
MON = Monitor.new

def w_fibers(thread)
  fiber = Fiber.new do |i|
    thread.w_ask
    i = w_between(thread, i)
    [i].each { |_| Fiber.yield thread.w_ask }
    thread.w_ask
  end
  fiber.resume(1) while fiber.alive?
  numbers = Enumerator.new { |to| 3.times { |i| thread.w_ask; to << i } }
  2.times { numbers.next; thread.w_ask }
  numbers.lazy.map { |i| thread.w_ask; i }.first(2)
  Fiber.new { w_recursion(thread, 6) }.resume
end

def w_between(thread, number)
  Fiber.yield(number)
  thread.w_ask
  Fiber.new { Fiber.yield thread.w_ask }.resume
end

# Code at the same place as that before, under another name or at other lines.
def w_dies(thread, number)
  name = format('w_f%02d_%d', number % 89, thread.size)
  owner = "WMade#{number % 11}_#{thread.size}"
  text = "#{"\n" * (number % 7)}def #{name}(thread)\n#{"\n" * (number % 5)}  thread.w_ask\nend\n"
  Tempfile.create(['w_made', '.rb']) do |file|
    file.write(text, "class #{owner}\n  def w_m(thread)\n    #{name}(thread)\n  end\nend\n")
    file.flush
    load(file.path)
  end
  Object.const_get(owner).new.w_m(thread)
  Object.send(:remove_const, owner)
  Object.send(:remove_method, name)
  RubyVM::InstructionSequence.compile("thread = ObjectSpace._id2ref(#{thread.object_id})\n\n thread.w_ask",
                                      "<w_made#{number % 13}>").eval
end

def w_collect(round)
  GC.start if (round % 5).zero?
  GC.compact if (round % 40).zero?
  GC.auto_compact = (round % 20) < 10
end

def w_work(thread)
  round = 0
  until thread.w_done?
    w_recursion(thread, 1 + round % 40)
    w_caught(thread)
    w_methods(thread)
    w_called_by_c(thread)
    w_fibers(thread)
    w_dies(thread, round) if (round % 4).zero?
    w_collect(round) if thread.size == 7001
    round += 1
  end
end

$VERBOSE = nil
threads = Array.new(4) { |i| Noted.new(7001 + i, CALLS / 4) }
trap('USR1') { threads[0].w_ask }
running = threads.drop(1).map { |thread| Thread.new { w_work(thread) } }
w_work(threads[0])
Process.kill(:USR1, Process.pid)
running.each(&:join)
File.open(NOTES, 'w') do |to|
  threads.each { |thread| thread.stacks.each { |key, number| to.puts "s #{number} #{key}" } }
  threads.each { |thread| to.puts "t #{thread.size} #{thread.noted.join(' ')}" }
end
