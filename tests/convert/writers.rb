# writers.rb - programs in the formats of other tools, from the definitions alone. Each returns the
# bytes of a file.

module Writers
  module_function

  def rep(program)
    ids = program.calls.map(&:object).max + 1
    letters = { free: 'f', realloc: 'r' }
    lines = program.calls.map do |call|
      letter = letters.fetch(call.kind, 'a')
      letter == 'f' ? "f #{call.object}" : "#{letter} #{call.object} #{call.size}"
    end
    ["20000000\n#{ids}\n#{lines.size}\n1\n", *lines.map { |line| "#{line}\n" }].join
  end

  def mtrace(program)
    lines = program.calls.flat_map do |call|
      where = "@ ./a program:(main+0x1f)[0x#{(0x401000 + call.size).to_s(16)}]"
      at = format('0x%x', call.address)
      size = format('%#x', call.size)
      case call.kind
      when :free then "#{where} - #{at}"
      when :realloc
        [format('%s < 0x%x', where, call.old_address), "#{where} > #{at} #{size}"]
      else "#{where} + #{at} #{size}"
      end
    end
    ["= Start\n", *lines.map { |line| "#{line}\n" }, "= End\n"].join
  end

  # With times, 100 us a call.
  def memory_replay(program)
    program.calls.each_with_index.map do |call, i|
      at = format('0x%x', call.address)
      operands =
        case call.kind
        when :malloc then "malloc #{at} #{call.size}"
        when :calloc then "calloc #{at} 1 #{call.size}"
        when :memalign then "memalign #{at} #{call.alignment} #{call.size}"
        when :realloc then format('realloc %s 0x%x %d', at, call.old_address, call.size)
        when :free then "free #{at}"
        end
      "#{call.thread}: #{operands} #{(i * 100_000) + 77} #{(i * 100_000) + 99}\n"
    end.join
  end

  DJ_TYPES = { malloc: 1, calloc: 2, free: 3, realloc: 4, memalign: 5 }.freeze

  # One record: thread, word, pointers ended and made, sizes, spare words.
  def dj_record(wide, thread, type, numbers)
    numbers += [0] * (7 - numbers.size)
    wide ? [thread, type, *numbers].pack('l<L<Q<7') : [thread, type, *numbers].pack('l<L<8')
  end

  # The path bits of each word are set here and there; a file that was not stopped ends in zeros.
  def dj_mtrace(program, wide: true)
    pointer = wide ? 8 : 4
    records = [dj_record(wide, 1, 255, [0x1234, 0, pointer])]
    program.calls.each_with_index do |call, i|
      at = call.address & (wide ? -1 : 0xffff_ffff)
      old = (call.old_address || 0) & (wide ? -1 : 0xffff_ffff)
      word = DJ_TYPES.fetch(call.kind) | ((i * 7919 & 0x3fff) << 8)
      ended, made = { free: [at, 0], realloc: [old, at] }.fetch(call.kind, [0, at])
      second = call.kind == :memalign ? call.alignment : 48
      records << dj_record(wide, call.thread, word, [ended, made, call.size, second, 64])
    end
    records.join + ("\0" * (pointer == 8 ? 640 : 360))
  end

  def wl_integer(number)
    bytes = [number & 127]
    bytes.unshift((number & 127) | 128) while (number >>= 7).positive?
    bytes.pack('C*')
  end

  def wl_operation(code, *operands) = [code].pack('C') + operands.map { |n| wl_integer(n) }.join

  def wl_call(call)
    index = call.object + 1
    case call.kind
    when :malloc then wl_operation(2, index, call.size)
    when :calloc then wl_operation(3, index, call.size)
    when :realloc then wl_operation(4, index, index, call.size)
    when :free then wl_operation(5, index)
    when :memalign then wl_operation(12, index, call.alignment, call.size)
    end
  end

  # A region a thread; a sync pair wherever the thread before had the object, and at a thread's
  # first call.
  def wl(program)
    regions = Hash.new { |hash, thread| hash[thread] = +'' }
    owners = {}
    syncs = 0
    last = nil
    program.calls.each do |call|
      before = regions.key?(call.thread) ? owners[call.object] : last
      if before && before != call.thread
        syncs += 1
        regions[before] << wl_operation(6, syncs)
        regions[call.thread] << wl_operation(7, syncs)
      end
      regions[call.thread] << wl_call(call)
      owners[call.object] = last = call.thread
    end
    wl_file(regions.values.map { |region| region + wl_operation(1) }, program, syncs)
  end

  # Offsets are as long as they are, so the main region is made until it fits.
  def wl_file(regions, program, syncs)
    bytes = 0
    loop do
      at = bytes
      starts = regions.map { |region| wl_operation(11, (at += region.size) - region.size) }
      main = wl_operation(8, program.calls.map(&:object).max + 1) + wl_operation(9, syncs) +
             wl_operation(10, regions.size) + starts.join + wl_operation(1)
      return main + regions.join if main.size == bytes
      bytes = main.size
    end
  end

  # The thread is the index of the program's; memalign is aligned.
  def ops(program)
    codes = { free: 1, realloc: 2, memalign: 3 }
    program.calls.map do |call|
      logarithm = call.alignment.zero? ? 0 : Math.log2(call.alignment).to_i
      [codes.fetch(call.kind, 0), call.thread, logarithm, call.object, call.size].pack('l<S<S<Q<Q<')
    end.join
  end

  # A realloc is a free and an allocation there; programs for it have none.
  def microbench(program)
    program.calls.each_with_index.map do |call, i|
      at = format('%016X', call.address)
      head = call.kind == :free ? "f #{at}" : "a #{call.size} #{at}"
      "#{head} #{call.thread} #{i * 1000}\n"
    end.join
  end

  # A realloc is a free and an allocation there; programs for it have none.
  def heaptrack(program)
    lines = program.calls.map do |call|
      at = call.address.to_s(16)
      call.kind == :free ? "- #{at}" : "+ #{call.size.to_s(16)} 1 #{at}"
    end
    ["v 10400 3\nx 9 a program\nX ./a program x\nI 1000 5e298f\nt 55aa 0\n",
     *lines.each_slice(100).with_index.flat_map do |slice, i|
       [*slice, "c #{(i * 20).to_s(16)}", "R #{(1000 + i).to_s(16)}"]
     end.map { |line| "#{line}\n" }].join
  end

  def logalloc_call(call, name, old)
    case call.kind
    when :malloc then "malloc(#{call.size})=#{name}"
    when :calloc then "calloc(1,#{call.size})=#{name}"
    when :realloc then "realloc(#{old},#{call.size})=#{name}"
    when :memalign then "memalign(#{call.alignment},#{call.size})=#{name}"
    when :free then "free(#{name})"
    end
  end

  # Another process's calls are in between. In a munged log objects are slots.
  def logalloc(program, munged: false)
    program.calls.flat_map do |call|
      names = [call.address, call.old_address].map { |at| format('0x%x', at || 0) }
      name, old = munged ? ["##{call.object + 1}"] * 2 : names
      ["1 #{call.thread} #{logalloc_call(call, name, old)}\n", "1 7 jemalloc_stats()\n",
       "2 9 malloc(3)=0x10\n"]
    end.join
  end

  # Frees are sized ones; a realloc's result takes a new register.
  def wip_processed(program)
    registers = {}
    next_register = 0
    thread = nil
    program.calls.each_with_index.flat_map do |call, i|
      head = call.thread == thread ? [] : [[5, call.thread, 0], [7, i * 1_000_000, 2]]
      thread = call.thread
      old = registers[call.object]
      registers[call.object] = next_register += 1 if call.kind != :free
      register = registers[call.object]
      head << case call.kind
              when :malloc then [register << 8, call.size, 0]
              when :free then [(old << 8) | 2, 0, 0]
              when :memalign then [(register << 8) | 3, call.size, call.alignment]
              when :realloc then [(old << 8) | 4, register, call.size]
              end
    end.map { |words| words.pack('Q<3') }.join
  end

  def varint(number)
    bytes = [(number.bit_length + 6) / 7, 1].max
    return "\0" + [number].pack('Q<') if bytes > 8
    [((number << 1) | 1) << (bytes - 1)].pack('Q<')[0, bytes]
  end

  def zigzag(number) = number.negative? ? (-number << 1) - 1 : number << 1
end

# A raw trace of wip-malloc-tracing: what each thread has in mind, and buffers.
class WipRaw
  Thread = Struct.new(:size, :token, :next_token, :tokens_left, :bytes)

  def initialize(program)
    @threads = Hash.new { |hash, id| hash[id] = Thread.new(0, 0, 0, 0, +'') }
    @tokens = {}
    @token_base = 1
    @out = [0x6cbd63e4].pack('L<')
    @time = 0
    program.calls.each_with_index { |call, i| put(call, i) }
    barrier
    @threads.each_key { |id| @out << integers((id << 8) | 7, @time) }
    @out << integers(0x0f) << ("\0" * 50)
  end

  def to_s = @out

  private

  def integers(*numbers) = numbers.map { |number| Writers.varint(number) }.join

  def put(call, index)
    thread = @threads[call.thread]
    @time += 4096
    new_tokens(thread) if thread.tokens_left.zero? && call.kind != :free
    thread.bytes << event(thread, call)
    flush(call.thread) if thread.bytes.size > 100 || index % 7 == 3
    barrier if index % 97 == 96
  end

  def new_tokens(thread)
    thread.next_token = @token_base
    thread.tokens_left = 16
    @token_base += 16
    thread.bytes << integers((thread.next_token << 3) | 2, @time | 3)
  end

  def size(thread, call)
    before = thread.size
    thread.size = (call.size + 7) / 8
    Writers.zigzag(thread.size - before)
  end

  def token(thread, call)
    before = thread.token
    thread.token = @tokens[call.object]
    Writers.zigzag(thread.token - before)
  end

  def take_token(thread, call)
    @tokens[call.object] = thread.next_token
    thread.next_token += 1
    thread.tokens_left -= 1
  end

  def event(thread, call)
    words = case call.kind
            when :free then [(token(thread, call) << 3) | (call.object.odd? ? 1 : 4)]
            when :realloc then [(size(thread, call) << 8) | 0x17, token(thread, call)]
            when :memalign then [(size(thread, call) << 8) | 0x1f, call.alignment]
            else [size(thread, call) << 3]
            end
    take_token(thread, call) if call.kind != :free
    integers(*words)
  end

  def flush(id)
    bytes = @threads[id].bytes
    @out << integers((id << 3) | 3, @time | 5, bytes.bytesize) << bytes
    @threads[id].bytes = +''
  end

  def barrier
    @threads.each_key { |id| flush(id) unless @threads[id].bytes.empty? }
    @out << integers(0x27, @time) << integers((5 << 3) | 0x2f, @time, 4) << 'text'
  end
end
