#!/usr/bin/env ruby
# frozen_string_literal: true

# symbols_test.rb - addresses of a program that is compiled here, and what symbols/ says of them.

require 'fileutils'
require 'tmpdir'
require_relative '../tap'

SOURCE = File.expand_path('known.cc', __dir__)
LINES = File.readlines(SOURCE)
SYMBOLIZE = "#{BUILD}/tests/symbols/symbolize"

def line_of(words) = LINES.index { |line| line.include?(words) } + 1
def at(name) = "known.cc:#{line_of("MARK(#{name})")}"
def called(name) = "known.cc:#{line_of("/* calls #{name} */")}"

# What is said of these addresses, a list of frames each, and the state of the file.
def symbolize(*words)
  *lines, state = output_of({ 'DEBUGINFOD_URLS' => '' }, 'timeout', '300', SYMBOLIZE, *words)
                  .split("\n")
  [lines.map { |line| line.split('; ').map { |frame| frame.sub(%r{ \S*/}, ' ') } }, state]
end

def compile(name, *options, compiler: 'g++')
  output_of({}, compiler, '-O2', '-std=gnu++17', '-w', *options, '-o', name, SOURCE)
  File.expand_path(name)
end

def addresses(program)
  output_of({}, 'nm', program).lines.to_h { |line| line.split.values_at(2, 0) }
end

def build_id(program)
  output_of({}, 'readelf', '-n', program)[/Build ID: (\h+)/, 1] || '-'
end

def has?(program) = ENV['PATH'].split(':').any? { |place| File.executable?("#{place}/#{program}") }

# Each place and its frames, without the file where there is no debug information.
PLACES = {
  'in_inlined' => [['outer::Counter::add', at('in_inlined')], ['outer::twice', called('in_inlined')],
                   ['plain', called('twice')]],
  'in_constructor' => [['outer::Counter::Counter', at('in_constructor')],
                       ['plain', called('in_constructor')]],
  'in_template' => [['outer::templated<long>', at('in_template')]],
  'in_hidden' => [['outer::(anonymous namespace)::hidden', at('in_hidden')]],
  'in_overloaded' => [['overloaded', at('in_overloaded')]]
}.freeze

def check_places(program, text, id: build_id(program), where: addresses(program), from: [])
  found, state = symbolize(*from, program, id, *where.values_at(*PLACES.keys))
  expected = PLACES.values.map { |frames| frames.map { |frame| frame.join(' ') } }
  report state == 'found' && found == expected, text,
         [state] + found.zip(expected).reject { |a, b| a == b }.map { |a, b| "#{a} instead of #{b}" }
end

# Outermost functions by name alone.
def check_names(program, text, where:)
  found, = symbolize(program, build_id(program), *where.values_at(*PLACES.keys))
  expected = PLACES.values.map { |frames| ["#{frames.last[0]} :0"] }
  report found == expected, text, found.map(&:to_s)
end

# Entries of debug information, each the child of the one before; all but the last say that their
# child is also their sibling.
def nested_entries(count)
  entries = (0...count).map { |i| ".L#{i}: .uleb128 2\n.long .L#{i + 1}-.Lunit\n" }.join
  <<~ASM
    .text
    .globl place
    .type place,@function
    place: ret
    .Lend: .size place,.-place
    .section .debug_abbrev,"",@progbits
    .uleb128 1,0x11\n.byte 1\n.uleb128 0x11,1,0x12,6,0,0
    .uleb128 2,0x39\n.byte 1\n.uleb128 1,0x13,0,0
    .uleb128 3,0x2e\n.byte 0\n.uleb128 3,8,0x11,1,0x12,6,0,0,0
    .section .debug_info,"",@progbits
    .Lunit: .long .Lafter-.Lversion
    .Lversion: .short 4\n.long 0\n.byte 8\n.uleb128 1\n.quad place\n.long .Lend-place
    #{entries}
    .L#{count}: .uleb128 3\n.asciz "deep"\n.quad place\n.long .Lend-place\n.fill #{count + 2},1,0
    .Lafter: .section .note.GNU-stack,"",@progbits
  ASM
end

# A name of the same structure: each argument of a template is made of the one before, twice.
def growing_name(levels)
  substitution = ->(n) { n.zero? ? 'S_' : "S#{(n - 1).to_s(36).upcase}_" }
  inner = (2..levels).map { |i| "#{substitution[1]}I#{substitution[i] * 2}E" }
  "_Z1fI1AIiiE#{inner.join}Evv"
end

Dir.mktmpdir do |directory|
  Dir.chdir(directory)
  plan 36

  known = compile('known', '-g')
  where = addresses(known)
  id = build_id(known)
  check_places(known, 'debug information: inlined functions, templates, lines')
  lambdas = %w[in_lambda in_other_lambda]
  found, = symbolize(known, id, *where.values_at(*lambdas))
  method = 'outer::Counter::later'
  expected = ["{lambda:#{line_of('the first')}}",
              "{lambda:#{line_of('within the other') - 1}}::{lambda:#{line_of('within the other')}}"]
  outside, = symbolize(known, id, where['in_outside'])
  report found == lambdas.zip(expected).map { |place, name| ["#{method}::#{name} #{at(place)}"] } &&
         outside == [["{lambda:known.cc:#{line_of('of no function')}} #{at('in_outside')}"]],
         'lambdas, by line', [*found, *outside].map(&:to_s)

  check_places(compile('known4', '-gdwarf-4', '-no-pie'), 'DWARF 4, a program at a fixed address')
  if has?('clang++')
    check_places(compile('known_clang', '-g', '-Wl,--build-id', compiler: 'clang++'), 'of clang')
  else
    report true, 'of clang # SKIP no clang++'
  end
  names = compile('known_names')
  marked = addresses(names)
  output_of({}, 'objcopy', *PLACES.keys.map { |place| "--strip-symbol=#{place}" }, names)
  check_names(names, 'a symbol table alone: names', where: marked)

  output_of({}, 'objcopy', '--only-keep-debug', 'known', 'apart')
  output_of({}, 'objcopy', '--strip-all', 'known', 'stripped')
  stripped = File.expand_path('stripped')
  begins = where['overloaded'] || where.find { |name, _| name.to_s.start_with?('_Z10overloaded') }[1]
  found, state = symbolize(stripped, id, where['in_overloaded'])
  report found == [["stripped+0x#{begins.to_i(16).to_s(16)} :0"]] && state == 'found',
         'stripped: where the function begins', [found.to_s, begins]

  FileUtils.mkdir_p("debug/.build-id/#{id[0, 2]}")
  FileUtils.cp('apart', "debug/.build-id/#{id[0, 2]}/#{id[2..]}.debug")
  check_places(stripped, 'debug information apart, by its build id', id:, where:,
                                                                      from: ['-d', 'debug'])
  check_places('/nowhere/known', 'the program is not here: the same', id:, where:,
                                                                   from: ['-d', 'debug'])
  FileUtils.cp('apart', 'stripped.debug')
  check_places(stripped, 'debug information beside the program', id:, where:)
  FileUtils.mkdir_p('root/usr/bin')
  FileUtils.cp('known', 'root/usr/bin/known')
  check_places('/usr/bin/known', 'a copy of the files of another machine', id:, where:,
                                                                         from: ['-d', 'root'])

  found, state = symbolize(known, id.tr('0-9a-f', '1-9a-f0'), where['in_inlined'])
  report state == 'other' && found == [["known+0x#{where['in_inlined'].to_i(16).to_s(16)} :0"]],
         'another build of the program: nothing of it is believed', [state, found.to_s]

  no_id = compile('no_id', '-g', '-Wl,--build-id=none')
  _, state = symbolize(no_id, '-', '1000')
  report state == 'no id', 'without a build id, a path is not opened', [state]
  check_places(no_id, 'but a file in a directory that was given is', id: '-', where: addresses(no_id),
                                                                     from: ['-d', directory])

  # What two programs share, in a third file.
  if has?('dwz')
    Dir.mkdir('shared')
    both = %w[one two].map { |name| compile("shared/#{name}", '-g') }
    both.each { |name| output_of({}, 'objcopy', '--set-section-flags', '.comment=alloc', name) }
    output_of({}, 'dwz', '-m', 'shared/common', '-M', "#{directory}/shared/common", *both)
    check_places(both[0], 'debug information shared by dwz -m')
    File.rename('shared/common', 'elsewhere')
    Dir.mkdir('folder')
    FileUtils.cp('elsewhere', 'folder/common')
    check_places(both[0], 'the same in a directory that was given', from: ['-d', 'folder'])
    place = addresses(both[0])['in_overloaded']
    File.symlink("#{directory}/elsewhere", 'shared/common')
    states = [symbolize(both[0], build_id(both[0]), place).last]
    File.unlink('shared/common')
    File.mkfifo('shared/common')
    states << symbolize(both[0], build_id(both[0]), place).last
    report states.uniq == ['found, lacks shared'],
           'a link out of its directory, a FIFO: not opened, and it is said', states
  else
    3.times { |i| report true, "shared #{i} # SKIP no dwz" }
  end

  # A file for the debug information of each unit, or one for those of all.
  Dir.mkdir('units')
  [4, 5].each do |version|
    program = compile("units/program#{version}", "-gdwarf-#{version}", '-gsplit-dwarf')
    check_places(program, "split debug information, DWARF #{version}")
  end
  split = "#{directory}/units/program4"
  if has?('dwp') && system('dwp', '-e', split, '-o', "#{split}.dwp", err: '/dev/null')
    FileUtils.mv(Dir['units/*.dwo'], directory)
    check_places(split, 'that of all units in one file')
    File.unlink("#{split}.dwp")
  else
    FileUtils.mv(Dir['units/*.dwo'], directory)
    report true, 'that of all units in one file # SKIP no dwp'
  end
  found, state = symbolize(split, build_id(split), *addresses(split).values_at('in_inlined', 'in_hidden'))
  report state == 'found, lacks split' &&
         found == [["plain #{at('in_inlined')}"], ["outer::(anonymous namespace)::hidden #{at('in_hidden')}"]],
         'without: lines, names of the symbol table, and it is said', [state, found.to_s]

  # The first list of ranges lies at the beginning of its section.
  File.write('units/first.c', <<~SOURCE)
    #include <stdlib.h>
    static inline __attribute__((always_inline)) void *in_ranges(int n) { return malloc(n); }
    __attribute__((noinline)) void *around(int n) { return in_ranges(n + 1); }
    int main(void) { return around(10) == 0; }
  SOURCE
  frames = ['-g', '-gdwarf-4 -gsplit-dwarf'].map do |how|
    system('gcc', '-O1', '-Wl,--build-id', *how.split, '-o', 'first', 'units/first.c') or raise 'no compiler'
    call = output_of({}, 'objdump', '-d', '--no-show-raw-insn', 'first')[/<around>:.*?^ *(\h+):\s+(?:call|bl)\s/m, 1]
    symbolize("#{directory}/first", build_id('first'), call)
  end
  report frames.first == frames.last && frames.last.first.first.first.include?('in_ranges'),
         'inlined functions whose ranges are the first of the section', frames.map(&:to_s)

  if has?('clang++') && has?('llvm-dwp')
    program = compile('units/clang5', '-gdwarf-5', '-gsplit-dwarf', '-Wl,--build-id', compiler: 'clang++')
    system('llvm-dwp', '-e', program, '-o', "#{program}.dwp") or raise 'llvm-dwp failed'
    FileUtils.rm(Dir['units/clang5*.dwo'] + Dir['*.dwo'])
    check_places(program, 'that of all units in one file, of clang and DWARF 5')
  else
    report true, 'of clang and DWARF 5 # SKIP no clang++, or no llvm-dwp'
  end

  File.write('nested.s', nested_entries(80))
  output_of({}, 'gcc', '-shared', '-Wl,--build-id', '-o', 'nested', 'nested.s')
  found, state = symbolize("#{directory}/nested", build_id('nested'), addresses('nested')['place'])
  report state == 'found' && found == [['deep :0']],
         'an entry whose child is its sibling is visited once', [state, found.to_s]

  FileUtils.rm('stripped.debug')
  output_of({}, 'objcopy', '--add-gnu-debuglink=apart', 'stripped', 'linked')
  linked = "#{directory}/linked"
  check_places(linked, 'debug information beside the program, of the name that it gives', id:, where:)
  FileUtils.mkdir_p(["root/#{directory}", '.debug'])
  FileUtils.mv('apart', "root/#{directory}/apart")
  check_places(linked, 'the same below a directory that mirrors paths', id:, where:,
                                                                    from: ['-d', 'root'])
  FileUtils.mv("root/#{directory}/apart", '.debug/apart')
  check_places(linked, 'the same in .debug', id:, where:)

  # Fedora's: a symbol table, packed.
  output_of({}, 'objcopy', '--keep-file-symbols', '--strip-debug', 'known_names', 'table')
  output_of({}, 'xz', '-k', 'table')
  output_of({}, 'objcopy', '--strip-all', 'known_names', 'mini')
  output_of({}, 'objcopy', '--add-section', '.gnu_debugdata=table.xz', 'mini')
  check_names("#{directory}/mini", 'names from .gnu_debugdata', where: marked)

  File.mkfifo('fifo')
  states = ["#{directory}/fifo", directory, '/dev/zero', '[vdso]', '', 'known',
            "#{directory}/debug/../known/x"].map { |path| symbolize(path, id, '1000').last }
  states << symbolize('-d', 'none', known, id, '1000').last
  report states.uniq == ['missing'], 'a FIFO, a device, a directory, a relative path; "none"',
         [states.to_s]

  File.binwrite('broken', File.binread(known).byteslice(0, File.size(known) / 2))
  noise = File.binread(known)
  4000.times { |i| noise.setbyte(900 + i * 7 % (noise.size - 900), i % 256) }
  File.binwrite('noise', noise)
  broken = %w[broken noise].map do |name|
    symbolize('-d', directory, "#{directory}/#{name}", '-', '1139', where['in_inlined'])[1]
  end
  report broken.all? { |one| %w[found missing].include?(one) }, 'a damaged file ends nothing',
         [broken.to_s]

  names = output_of({}, SYMBOLIZE, '--demangle', '_ZN4core3ptr7drop_fn17h0123456789abcdefE',
                    '_RNvCs1234_7mycrate3foo', '_Z3fooi.part.0', 'main.cold', 'malloc', '_Z5buildB5cxx11i')
          .split("\n")
  report names == %w[core::ptr::drop_fn mycrate::foo foo main malloc build],
         'names of Rust; copies of functions', names

  cut = %w[_ZN35_$LT$a..cold..B$u20$as$u20$a..C$GT$3put17h0123456789abcdefE main.coldStart f.cold.12
           f.isra.0.part.3 g.llvm.1234 h.constprop.0.cold i.parts .cold]
  names = output_of({}, SYMBOLIZE, '--demangle', *cut).split("\n")
  report names == ['<a::cold::B as a::C>::put', *%w[main.coldStart f f g h i.parts .cold]],
         'suffixes of copies are only at the end of a name', names

  types = { 'void std::vector<int, std::allocator<int> >::push_back<int const&>(int const&)' =>
              'std::vector<int, std::allocator<int> >::push_back<int const&>',
            'main' => 'main', 'f(int)' => 'f', 'std::pair<int, char (*)(int)> make<A<3>>(int) const' => 'make<A<3>>',
            'A::operator()(int) const' => 'A::operator()', 'bool operator< <int>(A<int> const&)' => 'operator< <int>',
            'A::operator bool() const' => 'A::operator bool', 'operator new(unsigned long)' => 'operator new',
            'unsigned long ns::f<int>(void (*)(int))' => 'ns::f<int>',
            'ns::f(int)::{lambda(int)#1}::operator()(int) const' => 'ns::f::{lambda#1}',
            'auto f()::{lambda(auto:1)#2}::operator()<int>(int) const::{lambda(int (*)(int))#1}::operator()(int (*)(int)) const' =>
              'f::{lambda#2}::{lambda#1}',
            'A::operator()(int (*)(int)) const::{lambda()#1}::operator()() const' => 'A::operator()::{lambda#1}',
            'A::operator()::{lambda#1}' => 'A::operator()::{lambda#1}',
            '(anonymous namespace)::{lambda()#1}::operator()() const' => '(anonymous namespace)::{lambda#1}',
            'f()::{lambda(' => 'f::{lambda(',
            '(anonymous namespace)::f(int)' => '(anonymous namespace)::f',
            '<T as alloc::string::ToString>::to_string' => '<T as alloc::string::ToString>::to_string' }
  names = output_of({}, SYMBOLIZE, '--plain', *types.keys).split("\n")
  report names == types.values, 'names of other tools: without types', (names - types.values)

  kinds = [['core::io::load', '', 'c', 'own'], ['core::io::load', '', 'r', 'library'],
           ['<u8 as alloc::slice::hack::ConvertVec>::to_vec', '', 'r', 'library'],
           ['<T as alloc::string::ToString>::to_string', '', 'r', 'library'],
           ['<u8 as store::Fill>::fill', '', 'r', 'own'], ['<store::Tier as core::clone::Clone>::clone', '', 'r', 'own'],
           ['<[T]>::sort', '', 'r', 'library'], ['std::vector<int>::reserve', '', 'c', 'library'],
           ['__cxa_allocate_exception', '', 'c', 'library'], ['nlohmann::parse', '/usr/include/nlohmann/json.hpp', 'c', 'library'],
           ['nlohmann::parse', 'src/json.hpp', 'c', 'own'], ['alloc::refill', 'a.cc', 'c', 'own']]
  found = output_of({}, SYMBOLIZE, '--library', *kinds.flat_map { |one| one.first(3) }).split("\n")
  report found == kinds.map(&:last), 'what is a library\'s', kinds.zip(found).reject { |one, it| one.last == it }.map(&:to_s)

  grown = growing_name(30)
  names = output_of({}, SYMBOLIZE, '--demangle', growing_name(7), grown).split("\n")
  report names[0].start_with?('f<A<int, int>') && names[0].size > 1000 && names[1] == grown,
         'a name that stands for gigabytes stays as it is', names.map { |name| name[0, 60] }

  File.write('map', "1000 100 first\n2000 20 second one\nnothing\n1000 80 anew\n")
  File.chmod(0o644, 'map')
  maps = [%w[0 1000 1090 2010 2020], [Time.now.to_i + 1000, 1000]].map do |words|
    output_of({}, SYMBOLIZE, '--perf-map', 'map', *words.map(&:to_s)).split("\n", -1)
  end
  report maps == [['anew', '', 'second one', '', ''], ['none', '', '']],
         'a map of generated code: the latest line; too old a file is not read', [maps.to_s]

  File.open('map', 'a') { |map| map.truncate(1 << 40) }
  found = output_of({}, 'timeout', '300', SYMBOLIZE, '--perf-map', 'map', '0', '1040').split("\n", -1)
  report found == ['anew', ''], 'one with a hole of a terabyte', [found.to_s]
end
