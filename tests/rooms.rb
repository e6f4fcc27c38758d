# frozen_string_literal: true

# rooms.rb SOURCE - says which #include lines of the rooms the table "Rooms" of docs/architecture.md
# does not allow: the names in backquotes in its last column, `*` for any end, `NAME/` for all of a
# room. Exit status 1 if there is one.

require 'pathname'

source = ARGV.fetch(0)
rooms_in = Dir.glob('*/Makefile.inc', base: source).map { |file| File.dirname(file) }
table = File.read("#{source}/docs/architecture.md")[/^## Rooms$(.*?)^## /m, 1]
allowed = {}
table.scan(/^\|(.*?)\|.*\|(.*?)\|$/) do |rooms, names|
  rooms.scan(/`(.*?)`/) { |room,| allowed[room] = [room] + names.scan(/`(.*?)`/).flatten }
end

wrong = []
Dir.glob("{#{rooms_in.join(',')}}/{,preload/}*.{c,h,cc}", base: source).each do |file|
  room = allowed.keys.select { |name| file.start_with?(name) }.max_by(&:length)
  next wrong << "#{file}: its room is not in the table" if room.nil?
  next if allowed[room].include?('everything')

  File.read("#{source}/#{file}").scan(/^#include "(.*?)"/) do |name,|
    name = Pathname(file).dirname.join(name).to_s if name.start_with?('..')
    next unless name.include?('/')

    wrong << "#{file} includes #{name}" if
      allowed[room].none? { |a| name.start_with?(a.delete_suffix('*')) }
  end
end
puts wrong
exit wrong.empty? && allowed.size > 9
