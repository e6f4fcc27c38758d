#!/usr/bin/env ruby
# layers_test.rb - who calls whom, by the symbols of the built objects: rooms only those that they
# may include, and these are, for a folder of tracing/, only folders above it in the table of
# docs/architecture.md; neither the files of the recorder, the codec included, nor rooms in a circle.
# Prints TAP.

require 'tmpdir'
require 'tsort'

require_relative '../tap'

SOURCE = ENV.fetch('MALLOCTAPE_SOURCE') { File.expand_path('../..', __dir__) }
MAP = File.read("#{SOURCE}/docs/architecture.md")
# The front end gives it to the core by this name, as it must be there before any code runs.
GIVEN = 'malloctape_front_end'.freeze
# Symbols of the C library that ours stand in for are no calls of ours.
CC = ENV.fetch('CC', 'cc')
LIBC = `nm -D --defined-only #{`#{CC} -print-file-name=libc.so.6`}`
       .scan(/ [TWiBD] ([^@\s]+)/).flatten.to_h { |name| [name, true] }

ALLOWED =
  MAP[/^## Directories$(.*?)^## /m, 1].scan(/^\|(.*?)\|.*\|(.*?)\|$/).flat_map { |rooms, names|
    rooms.scan(%r{`(\S*)/`}).map { |room,| [room, names.scan(/`(.*?)`/).flatten] }
  }.to_h

# Objects by the name of their source, without its suffix.
def objects
  Dir.glob('{gperftools-build/*/capture,preload-build,[a-z]*}/**/*.o', base: BUILD).uniq
     .reject { |file| file.match?(%r{^(tests|bench|gperftools-build/[^/]*/(plain|tracing))/|/tests_}) }
     .to_h { |file| [name_of(file), "#{BUILD}/#{file}"] }
     .select { |name,| File.exist?("#{SOURCE}/#{name}.c") }
end

def name_of(file)
  file.sub(%r{^(gperftools-build/[^/]*/capture|preload-build)/}, '')
      .sub(%r{/(lib|bin_)[^/]*?-([^/]+)$}, '/\2').delete_suffix('.o')
end

def room_of(name) = File.dirname(name)

def may_call(from, to)
  room_of(from) == room_of(to) ||
    ALLOWED.fetch(room_of(from)).any? { |name| to.start_with?(name.sub(%r{[^/]*$}, '')) }
end

# [caller, callee, symbol]
def calls(objects)
  defined = Hash.new { |all, symbol| all[symbol] = [] }
  used = []
  names = objects.invert
  IO.popen(['nm', '-A', *names.keys], &:readlines).each do |line|
    name = names.fetch(line[/^(.*?):(?=[ \h]{16} )/, 1])
    symbol = line.split.last
    next if LIBC[symbol] || symbol == GIVEN

    case line
    when /:\h+ [TDBRWViC] / then defined[symbol] << name
    when /: +U / then used << [name, symbol]
    end
  end
  # Several programs may each have a function of that name: one of them is meant.
  used.flat_map do |from, symbol|
    meant = defined[symbol].find { |to| room_of(to) == room_of(from) } ||
            defined[symbol].find { |to| may_call(from, to) } || defined[symbol].first
    meant ? [[from, meant, symbol]] : []
  end
end

# Folders of the recorder that include one that is not above them in the table.
def upward(allowed)
  folders = allowed.keys.select { |room| room.start_with?('tracing') }
  folders.each_with_index.flat_map { |folder, at|
    allowed[folder].map { |name| name[%r{(tracing/\w+)/}, 1] }.compact
                   .reject { |name| folders[0, at].include?(name) }
                   .map { |name| "#{folder} includes #{name}" }
  }
end

def forbidden(calls)
  calls.reject { |from, to| may_call(from, to) }
       .map { |from, to, symbol| "#{from} calls #{to}: #{symbol}" }
end

def circles(calls)
  graph = calls.reject { |from, to| from == to }.group_by(&:first)
               .transform_values { |each| each.map { |_, to| to }.uniq }
  TSort.strongly_connected_components(
    ->(&block) { graph.each_key(&block) }, ->(from, &block) { graph.fetch(from, []).each(&block) }
  )
       .select { |circle| circle.size > 1 }.map { |circle| circle.sort.join(' ') }
end

# Names of static functions that stand in several of these sources (name => text).
def shared_names(sources)
  sources.flat_map { |file, text|
    text.gsub(/__attribute__\(\(.*?\)\)\s|ElfW\(\w+\)/, '')
        .scan(/^static [^;={}()]*?\b(\w+)\([^;{}]*\)\n\{/).flatten.uniq.map { |name| [name, file] }
  }.group_by(&:first).select { |_, all| all.size > 1 }
         .map { |name, all| "#{name}: #{all.map(&:last).join(' ')}" }
end

all = objects
found = calls(all)
recorder = all.keys.select { |name| name.start_with?('tracing/') }
unplaced = recorder.reject { |name| ALLOWED.key?(room_of(name)) }

plan 7
report unplaced.empty? && recorder.size > 30, 'each file of the recorder is in a folder of the table', unplaced
bad = upward(ALLOWED)
report bad.empty?, 'a folder of the recorder includes those above it in the table only', bad
bad = circles(found.select { |from,| from.match?(%r{^(tracing|stream|common)/}) })
report found.size > 1000 && bad.empty?, 'files of the recorder do not call each other in a circle', bad
bad = forbidden(found)
report bad.empty?, 'rooms call those only that they may include', bad
bad = circles(found.map { |from, to,| [room_of(from), room_of(to)] })
report bad.empty?, 'rooms do not call each other in a circle', bad
sources = Dir.glob('*/**/*.c', base: SOURCE).reject { |file| file.match?(%r{^(tests|build|check-)}) }
             .to_h { |file| [file, File.read("#{SOURCE}/#{file}")] }
bad = shared_names(sources)
seen = shared_names(sources.merge('b.c' => sources['cli/top.c']))
report bad.empty? && seen.size > 10, "a static function's name stands in one file only", bad

Dir.mktmpdir do |directory|
  File.write("#{directory}/a.c", 'int recording_begin(void); int f(void) { return recording_begin(); }')
  system("#{CC} -c -o #{directory}/a.o #{directory}/a.c")
  bad = forbidden(calls(all.merge('tracing/data/state' => "#{directory}/a.o")))
  over = upward(ALLOWED.merge('tracing/os' => %w[tracing/data/]))
  report bad == ['tracing/data/state calls tracing/core/recording_begin: recording_begin'] &&
         over == ['tracing/os includes tracing/data'], 'a call or an include upwards would be noticed'
end
