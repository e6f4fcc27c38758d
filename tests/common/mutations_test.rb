#!/usr/bin/env ruby
# mutations_test.rb - each MUST_HOLD (common/check.h) trips over a mistake that it is there for.
#
# A mutation replaces text of one source. The source, or those that include the header, are compiled
# again, and linked with the other objects of the program that checks itself; that is run over inputs
# on which the program without the mistake stops at nothing, until a check stops it. Some do in each
# run; `make check-mutations` (MALLOCTAPE_LONG) tries all. Prints TAP.

require 'fileutils'
require 'tmpdir'

require_relative '../tap'

SOURCE = ENV.fetch('MALLOCTAPE_SOURCE') { File.expand_path('../..', __dir__) }

# The program, the source with the check, which check of it (1 is the first), [text, replacement],
# and if these stand elsewhere: in which file, and what has to be compiled.
Mutation = Struct.new(:program, :file, :number, :edits, :in_file, :compiled)

def mutation(program, file, number, *edits, of: file, compiled: [of])
  Mutation.new(program, file, number, edits, of, compiled)
end

EVENTS = %w[tracing/core/events_tcmalloc.c].freeze
WORK = %w[replay/work.c replay/slots.c].freeze
MUTATIONS = [
  # A page of one owner stays his when another one gets a place on it.
  mutation(:recorder, 'tracing/data/shadow.h', 1,
           ["    atomic_store_relaxed(&page->owner, SHADOW_MIXED);\n}", ";\n}"], compiled: EVENTS),
  # A slot that does not exist is given back.
  mutation(:recorder, 'tracing/data/spool.c', 1,
           ["SPOOL_SLOT_FREE);\n    push_free(spool, slot);",
            "SPOOL_SLOT_FREE);\n    push_free(spool, slot + spool->mapped);"]),
  # The stack of free slots keeps the one that was taken.
  mutation(:recorder, 'tracing/data/spool.c', 2,
           ['atomic_load_relaxed(&spool->notes[(uint32_t)head - 1].next_free)', '(uint32_t)head']),
  # A segment begins in a slot that was not taken.
  mutation(:recorder, 'tracing/data/spool.c', 3,
           ['begin_segment(lane, slot, lane->slot.start, count);',
            'begin_segment(lane, slot + 1, lane->slot.start, count);'],
           of: 'tracing/recording/slot.c'),
  # A slot is given back twice.
  mutation(:recorder, 'tracing/data/spool.c', 4,
           ['spool_give(&writer->spool, writer->pending[i]);',
            'spool_give(&writer->spool, writer->pending[i]), ' \
            'spool_give(&writer->spool, writer->pending[i]);'], of: 'tracing/writer/writer_slots.c'),
  # A lane's cursor is before its slot.
  mutation(:recorder, 'tracing/data/lane.h', 1,
           ['lane->slot.start = units;', 'lane->slot.start = units + 1;'],
           of: 'tracing/recording/slot.c'),
  # The fast path may write up to the end.
  mutation(:recorder, 'tracing/data/lane.h', 2,
           ['stack_sample_limit(lane) : lane->slot.room;', 'stack_sample_limit(lane) : lane->slot.end;'],
           of: 'tracing/recording/slot.c'),
  # The writer has read beyond the slot; or counts other units than it has read.
  mutation(:recorder, 'tracing/writer/writer_slots.c', 1,
           ['lane->writer.read_from += count;',
            'lane->writer.read_from += count + SPOOL_SLOT_UNITS;']),
  mutation(:recorder, 'tracing/writer/writer_slots.c', 2,
           ['atomic_add_own_relaxed(&lane->writer.written, count);',
            'atomic_add_own_relaxed(&lane->writer.written, count + 1);']),
  # Produced is not written, though nothing is in flight.
  mutation(:recorder, 'tracing/writer/writer_ticks.c', 1,
           ['lane->slot.earlier_units += units;', 'lane->slot.earlier_units += units + 1;']),
  # A sequence number is taken twice.
  mutation(:recorder, 'stream/units_tcmalloc.c', 1,
           ['lane->sequences[entry] = number;', 'lane->sequences[entry] = number + 1;']),
  # A window ends though lanes have records in it; lanes are admitted to one that has not come.
  mutation(:ordering, 'postprocess/order_windows.c', 1,
           ['if (closed && order_window(order, order->oldest)->lanes_left == 0) {', 'if (closed) {'],
           of: 'postprocess/order.c'),
  mutation(:ordering, 'postprocess/order_windows.c', 2,
           ['order->admitted = window;', 'order->admitted = window + 2;']),
  mutation(:ordering, 'postprocess/order_windows.c', 3, ['order->open++;', 'order->open += 3;'],
           of: 'postprocess/order.c'),
  # Of the lanes of a window, all but one are forgotten.
  mutation(:ordering, 'postprocess/order_windows.c', 4,
           ['window->lanes_left++;', 'window->lanes_left = 1;'],
           ['(lane)->window)->lanes_left--;', '(lane)->window)->lanes_left = 0;'],
           of: 'postprocess/order_lane.c'),
  # Remote frees are taken whose sequence number comes later.
  mutation(:ordering, 'postprocess/order_take.c', 1,
           ["           (!step->has_sequence ||\n            order->structures[step->sequence.index]" \
            ".next == step->sequence.number);", "           true\n;"]),
  # Slots of replaying threads: one stays free when it is taken; its object ends twice; it becomes
  # free while the object lives.
  mutation(:replay, 'replay/slots.h', 1, ['lane->first = slots->slots[slot].next;', ''],
           compiled: WORK),
  mutation(:replay, 'replay/slots.h', 2, ['slots->slots[slot].live = true;', ''], compiled: WORK),
  mutation(:replay, 'replay/slots.h', 3, ['    slots->slots[slot].live = false;', ';'],
           ['    slots_keep(slots, lane, slot);',
            '    slots->slots[slot].live = false, slots_keep(slots, lane, slot);'], compiled: WORK)
].freeze

SHORT = [2, 10, 11, 17].freeze # one of each part

# ---- programs ----

# What the makefile would compile and link.
def from_makefile(names)
  lines = names.map { |name| "\t@echo words $(#{name})" }
  text = "include Makefile\nprint-mutations:\n#{lines.join("\n")}\n"
  IO.popen(%w[make -s -f - print-mutations], 'r+', chdir: BUILD) do |make|
    make.write(text)
    make.close_write
    make.readlines.filter_map { |line| line.delete_prefix('words') if line.start_with?('words') }
  end
end

PROGRAMS = { recorder: %w[tests_tracing_capture_faults_test_CPPFLAGS AM_CFLAGS
                          tests_tracing_capture_faults_test_OBJECTS
                          tests_tracing_capture_faults_test_LDADD],
             ordering: %w[tests_sim_postprocess_CPPFLAGS AM_CFLAGS tests_sim_postprocess_OBJECTS
                          tests_sim_postprocess_LDADD],
             replay: %w[tests_replay_replay_CPPFLAGS tests_replay_replay_CFLAGS
                        tests_replay_replay_OBJECTS tests_replay_replay_LDADD] }.freeze
COMMON = %w[CC DEFS DEFAULT_INCLUDES CPPFLAGS CFLAGS LDFLAGS LIBS].freeze

def makefile_words
  @makefile_words ||= from_makefile(COMMON + PROGRAMS.values.flatten).map(&:split)
                                                                     .then { |all|
    { common: COMMON.zip(all).to_h,
      **PROGRAMS.keys.zip(all.drop(COMMON.size).each_slice(4)).to_h }
  }
end

def run(directory, *command)
  output, status = Open3.capture2e(*command, chdir: BUILD)
  [output, status.success? || (File.write("#{directory}/failed", output) && false)]
end

# A program with the mutated text; nil: there is none, or the text to replace is not there once.
def build(mutation, directory)
  preprocessor, flags, objects, libraries = makefile_words[mutation.program]
  common = makefile_words[:common]
  text = File.read("#{SOURCE}/#{mutation.in_file}")
  mutation.edits.each { |from, to|
    return nil unless text.scan(from).size == 1

    text = text.sub(from) { to }
  }
  FileUtils.mkdir_p("#{directory}/#{File.dirname(mutation.in_file)}")
  File.write("#{directory}/#{mutation.in_file}", text)
  made = mutation.compiled.map.with_index { |source, i|
    at = [directory, SOURCE].map { |root| "#{root}/#{source}" }.find { |file| File.exist?(file) }
    _, good = run(directory, *common['CC'], *common['DEFS'], "-I#{directory}",
                  *common['DEFAULT_INCLUDES'], *preprocessor, *common['CPPFLAGS'], *flags,
                  *common['CFLAGS'], '-w', '-c', '-o', "#{directory}/#{i}.o", at)
    return nil unless good

    "#{directory}/#{i}.o"
  }
  stems = mutation.compiled.map { |source| File.basename(source, '.c') }
  others = objects.reject { |object| stems.any? { |stem| object.end_with?("-#{stem}.o") } }
  # In front of the libraries: no member of the same name is then taken out of these.
  program = "#{directory}/program"
  _, good = run(directory, *common['CC'], *flags, *common['CFLAGS'], *common['LDFLAGS'], '-pthread',
                '-o', program, *others, *made, *libraries, *common['LIBS'], '-ldl', '-lm')
  good ? program : nil
end

# ---- inputs ----

SEEDS = (1..40)
PROGRAM_WORDS = %w[events=20000 threads=6 share=60 mail=20 sequences=1 exits=50].freeze
PLAN = ',nothing,0,0,0,0,0,0,0,0,0,0,none'.freeze

def raw(directory, seed)
  FileUtils.mkdir_p("#{directory}/#{seed}")
  run(directory, "#{BUILD}/tests/sim/simulate", '--write', "--directory=#{directory}/#{seed}",
      "seed=#{seed}", *PROGRAM_WORDS)
  "#{directory}/#{seed}/raw"
end

def ordered(directory, seed)
  file = raw(directory, seed)
  run(directory, "#{BUILD}/tests/sim/postprocess", file, "#{file}.ordered")
  "#{file}.ordered"
end

def command(program, kind, directory, seed)
  case kind
  when :recorder then [program, 'one', "#{%w[file older fifo][seed % 3]},#{seed}#{PLAN}"]
  when :ordering then [program, raw(directory, seed), '/dev/null']
  when :replay then [program, '--engine=threads', ordered(directory, seed)]
  end
end

# What a check has said, which may be another one; nil: none has stopped it.
def tripped(program, mutation, directory)
  lines = File.readlines("#{SOURCE}/#{mutation.file}")
  first = lines.each_index.select { |at| lines[at].include?('MUST_HOLD(') }[mutation.number - 1]
  last = (first..).find { |at| lines[at].end_with?(");\n") }
  SEEDS.each do |seed|
    output, = Open3.capture2e('timeout', '60', *command(program, mutation.program, directory, seed))
    said = output[/[\w.\/]+:\d+: this does not hold/]
    next unless said
    # Of a check over several lines, the compiler may name any.
    at = said[/:(\d+):/, 1].to_i - 1
    return said if said.include?(mutation.file) && at.between?(first, last)

    return "another one: #{said}"
  end
  nil
end

def result_of(mutation)
  Dir.mktmpdir do |directory|
    program = build(mutation, directory)
    return File.exist?("#{directory}/failed") ? File.read("#{directory}/failed") : 'no such text' unless program

    tripped(program, mutation, directory) || 'nothing has stopped it'
  end
end

# [file, number] of all in the tree.
def all_checks
  Dir.glob('*/**/*.{c,h}', base: SOURCE).reject { |file| file.match?(%r{^(tests|build|check-|common/check)}) }
     .flat_map { |file|
    (1..File.read("#{SOURCE}/#{file}").scan('MUST_HOLD(').size).map { |number| [file, number] }
  }
end

if makefile_words[:common]['CFLAGS'].any?(/fsanitize=\S*thread/)
  puts '1..0 # SKIP ThreadSanitizer lets nobody map what the shadow table needs'
  exit
end
tried = ENV['MALLOCTAPE_LONG'] ? MUTATIONS : SHORT.map { |i| MUTATIONS[i] }
plan tried.size + 1
missing = all_checks - MUTATIONS.map { |one| [one.file, one.number] }
report missing.empty? && all_checks.size > 10, 'each check has a mutation',
       missing.map { |file, number| "#{file}: MUST_HOLD number #{number} has none" }
tried.each do |mutation|
  said = result_of(mutation)
  report said.include?(mutation.file) && !said.start_with?('another'),
         "check #{mutation.number} of #{mutation.file} trips",
         [said]
end
