# workload.rb - a .wl, decoded from the definition, and carried out by threads whose speed is left
# to chance. Whatever their order, each call must find its pointer as it needs it.

class Workload
  OPERANDS = [0, 0, 2, 2, 3, 1, 1, 1, 1, 1, 1, 1, 3, 2, 2, 3].freeze
  MALLOC, CALLOC, REALLOC, FREE, SYNC_W, SYNC_R = (2..7).to_a
  ALLOC_PTRS, ALLOC_SYNCS, NTHREADS, START_THREAD, MEMALIGN = (8..12).to_a
  DONE = 1

  def initialize(bytes)
    @bytes = bytes
    main = region(0)
    @pointers, @syncs, threads = [ALLOC_PTRS, ALLOC_SYNCS, NTHREADS].map do |code|
      main.assoc(code)[1]
    end
    @threads = main.filter_map { |code, offset| region(offset) if code == START_THREAD }
    raise 'other threads than announced' if threads != @threads.size
  end

  # The peak of live bytes; raises when a call is impossible or nobody can go on.
  def run(random)
    @live = {}
    @live_bytes = @peak = 0
    @written = {}
    at = @threads.map { 0 }
    until (ready = ready_threads(at)).empty?
      thread = ready.sample(random: random)
      steps = random.rand(4).zero? ? 100_000 : random.rand(1..50)
      steps.times { can_step?(thread, at) ? step(thread, at) : break }
    end
    raise 'threads wait for each other' if at.zip(@threads).any? { |i, calls| i < calls.size }

    @peak
  end

  private

  def region(offset)
    at = offset
    operations = []
    loop do
      code = @bytes.getbyte(at)
      at += 1
      operands = Array.new(OPERANDS.fetch(code)) do
        number = 0
        loop do
          byte = @bytes.getbyte(at)
          at += 1
          number = (number << 7) | (byte & 127)
          break number if byte < 128
        end
      end
      return operations if code == DONE

      operations << [code, *operands]
    end
  end

  def can_step?(thread, at)
    operation = @threads[thread][at[thread]]
    operation && (operation[0] != SYNC_R || @written[operation[1]])
  end

  def ready_threads(at) = @threads.each_index.select { |thread| can_step?(thread, at) }

  def step(thread, at)
    code, pointer, second, third = @threads[thread][at[thread]]
    at[thread] += 1
    raise "operation #{code} is not to be written" if code > MEMALIGN

    case code
    when SYNC_W then write_sync(pointer)
    when FREE then change(pointer, true, nil)
    when REALLOC
      raise 'a realloc between pointers' if second != pointer && second != 0

      change(pointer, second == pointer, third)
    when MALLOC, CALLOC then change(pointer, false, second)
    when MEMALIGN then change(pointer, false, third)
    end
  end

  def write_sync(sync)
    raise "sync #{sync} out of range" if sync >= @syncs || @written[sync]

    @written[sync] = true
  end

  # A pointer that must be live or must not be gets an object of this size, or none.
  def change(pointer, live, size)
    raise "pointer #{pointer} out of range" unless (1...@pointers).cover?(pointer)
    raise "pointer #{pointer} is #{live ? 'not ' : ''}live" if @live.key?(pointer) != live

    @live_bytes += (size || 0) - (@live.delete(pointer) || 0)
    @live[pointer] = size if size
    @peak = [@peak, @live_bytes].max
  end
end
