#!/usr/bin/env ruby
# frozen_string_literal: true

# count-tests.rb BUILD-DIR MAKE-STATUS - counts what `make check` really ran.
#
# Every test of Automake's TESTS leaves NAME.trs (results) and NAME.log (output). A test that
# printed TAP counts with each of its lines, a GoogleTest program with each of its cases, any other
# test as one. A test without results did not run, which is a failure; so is a `make check` that
# failed though no test did.
#
# Prints what the log of every failed test tells, the reason of each that was skipped, and as the
# last line "N passed, N failed[, N skipped]".

LOG_TAIL_LINES = 40

Counts = Struct.new(:passed, :failed, :skipped) do
  def self.zero = new(0, 0, 0)
  def ran? = passed + failed + skipped > 0

  def add(other)
    each_pair { |key, number| self[key] = number + other[key] }
  end

  def to_s
    "#{passed} passed, #{failed} failed#{", #{skipped} skipped" if skipped > 0}"
  end
end

# The results that a .trs file holds, as words: PASS, XFAIL, FAIL, XPASS, ERROR, SKIP.
def results_read(trs_path)
  return [] unless File.exist?(trs_path)

  File.readlines(trs_path, encoding: 'BINARY')
    .filter_map { |line| line[/\A:test-result:\s*(\w+)/, 1] }
end

def results_count(results, log)
  failed = results.count { |word| %w[FAIL XPASS ERROR].include?(word) }
  # The TAP driver adds an error when a script ends with a status of its own; its failed tests say
  # as much.
  failed -= 1 if failed > 1 && log.match?(/^ERROR: .* - exited with status \d+$/)
  Counts.new(results.count { |word| %w[PASS XFAIL].include?(word) }, failed, results.count('SKIP'))
end

# The cases of a GoogleTest program, or nil if the log is not one's.
def gtest_count(log, succeeded)
  return nil unless log.include?('[==========] Running ')

  failed = log.scan(/^\[  FAILED  \] .* \(\d+ ms\)$/).size
  failed = 1 if failed.zero? && !succeeded # it crashed
  Counts.new(log.scan(/^\[       OK \] /).size, failed,
             log.scan(/^\[  SKIPPED \] .* \(\d+ ms\)$/).size)
end

def test_count(results, log)
  gtest = gtest_count(log, results != ['FAIL']) if results.size == 1
  gtest || results_count(results, log)
end

# A failed test that explained itself in TAP notes is shown with these, whatever else with the end
# of its log.
def failure_show(name, log_path, log)
  puts '', "--- #{name} failed; its output is in #{log_path}"
  explained = log.scan(/^not ok.*\n(?:(?!ok|not ok).*\n)*/)
  puts explained.map { |text| text.lines.first(LOG_TAIL_LINES) }
  puts '...', log.lines.last(LOG_TAIL_LINES) if explained.empty?
end

def skips_show(name, log)
  # The TAP driver's lines, and a plain test's last.
  reasons = log.scan(/^SKIP: (?:.* # SKIP )?(.*)/).flatten
  reasons += log.scan(/^\[  SKIPPED \] (.*) \(\d+ ms\)$/).flatten
  reasons.each { |reason| puts "skipped: #{name}: #{reason}" }
end

# Counts one test, given as the path of its log.
def test_examine(build_dir, log_name)
  name = log_name.delete_suffix('.log')
  log_path = File.join(build_dir, log_name)
  log = File.exist?(log_path) ? File.binread(log_path) : ''
  results = results_read(File.join(build_dir, "#{name}.trs"))
  results = ['ERROR'] if results.empty? # it did not run
  counts = test_count(results, log)
  failure_show(name, log_path, log) if counts.failed > 0
  skips_show(name, log) if counts.skipped > 0
  counts
end

# The logs that the Makefile's TESTS will leave.
def test_logs(build_dir)
  question = "include Makefile\nprint-test-logs:\n\t@echo $(TEST_LOGS)\n"
  no_make_above = { 'MAKEFLAGS' => nil, 'MFLAGS' => nil, 'MAKEOVERRIDES' => nil }
  IO.popen([no_make_above, 'make', '-s', '--no-print-directory', '-C', build_dir, '-f', '-',
            'print-test-logs'], 'r+') do |make|
    make.write(question)
    make.close_write
    make.read.split
  end
end

build_dir, make_status = ARGV
total = Counts.zero
test_logs(build_dir).each { |log_name| total.add(test_examine(build_dir, log_name)) }

if make_status != '0' && total.failed.zero?
  puts "make check itself failed with status #{make_status}"
  total.failed = 1
end
puts 'no test ran' unless total.ran?
puts total
exit(total.failed.zero? && total.passed > 0)
