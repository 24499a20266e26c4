-- For the option -script of redis_exporter, which reads no sections of modules: each figure of INFO bf, as
-- redis_script_values{key="bf_filters"} and so on. The version is a number, as in MODULE LIST: 300 is 0.3.0.
local section = redis.call("INFO", "bf")
local figures = {}
for name, value in string.gmatch(section, "(bf_[%l_]+):(%d+)\r\n") do
    figures[#figures + 1] = name
    figures[#figures + 1] = value
end
local major, minor, patch = string.match(section, "bf_version:(%d+)%.(%d+)%.(%d+)")
if major then
    figures[#figures + 1] = "bf_version"
    figures[#figures + 1] = tostring(10000 * major + 100 * minor + patch)
end
return figures
