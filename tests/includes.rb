# frozen_string_literal: true

# includes.rb SOURCE - says which #include lines the table "Directories" of docs/architecture.md does
# not allow: the names in backquotes in its last column, `*` for any end, `NAME/` for all of a
# directory; which headers of common/ only one directory includes, to which they should move; and
# which files include each other in a circle: NAME.c, .h and NAME_own.h are one. Exit status 1 if
# there is one.

require 'tsort'

source = ARGV.fetch(0)
directories = Dir.glob('*/Makefile.inc', base: source).map { |file| File.dirname(file) }
table = File.read("#{source}/docs/architecture.md")[/^## Directories$(.*?)^## /m, 1]
allowed = {}
table.scan(/^\|(.*?)\|.*\|(.*?)\|$/) do |firsts, names|
  firsts.scan(/`(.*?)`/) { |name,| allowed[name] = [name] + names.scan(/`(.*?)`/).flatten }
end

wrong = []
users = Hash.new { |all, name| all[name] = [] }
Dir.glob("{#{directories.join(',')}}/**/*.{c,h,cc}", base: source).each do |file|
  directory = allowed.keys.select { |name| file.start_with?(name) }.max_by(&:length)
  next wrong << "#{file}: its directory is not in the table" if directory.nil?
  next if allowed[directory].include?('everything')

  File.read("#{source}/#{file}").scan(/^#include "(.*?)"/) do |name,|
    if name.start_with?('..') ||
       (directory != 'gperftools-patches/' && File.exist?("#{source}/#{File.dirname(file)}/#{name}"))
      wrong << "#{file} includes #{name} by another path than the one from the top"
    end
    next unless name.include?('/')

    users[name] |= [directory[%r{[^/]*/}]] unless file == name.sub(/h$/, 'c')
    wrong << "#{file} includes #{name}" if
      allowed[directory].none? { |a| name.start_with?(a.delete_suffix('*')) }
  end
end
parts = Dir.glob("#{source}/common/*.h").flat_map { |file| File.read(file).scan(/^#include "(.*?)"/) }
           .flatten
Dir.glob('common/*.h', base: source).each do |name|
  next if name.start_with?('common/arch_') # arch.h chooses one of them
  next if parts.include?(name) # of another header, which brings it along

  wrong << "#{name} is for #{users[name].first || 'nobody'} alone" if users[name].size < 2
end
# Those that are: a part of the other one, inlined into its callers.
CIRCLES = [%w[stream/raw_calls stream/raw_decoder], %w[stream/units stream/units_read]].freeze
stem = ->(file) { file.sub(/(_own)?\.(c|h|cc)\z/, '') }
includes = Hash.new { |all, name| all[name] = [] }
Dir.glob('*/**/*.{c,h,cc}', base: source).grep_v(%r{\A(tests|bench|build[^/]*)/}).each do |file|
  names = File.read("#{source}/#{file}").scan(/^#include "(.*?)"/).flatten
  includes[stem.call(file)] |= names.map(&stem) - [stem.call(file)]
end
circles = TSort.strongly_connected_components(->(&one) { includes.keys.each(&one) },
                                              ->(name, &one) { includes.fetch(name, []).each(&one) })
wrong += (circles.select { |circle| circle.size > 1 }.map(&:sort) - CIRCLES)
         .map { |circle| "#{circle.join(', ')} include each other" }
puts wrong
exit wrong.empty? && allowed.size > 9
