"""What Redis gives its scripts beside Lua, written in Lua: for a stand-in such as fakeredis, which has neither of the two.

Just as much as the scripts use: lists of texts, whole numbers and truth values as MessagePack, and numbers as bytes.
"""

LIBRARIES = rb"""
local cmsgpack, struct = {}, {}
do
  local byte, char, floor, sub = string.byte, string.char, math.floor, string.sub
  local function bytes_of(number, width)
    local text = ''
    for _ = 1, width do text, number = char(number % 256) .. text, floor(number / 256) end
    return text
  end
  local function number_at(text, at, width)
    local number = 0
    for n = at, at + width - 1 do number = number * 256 + byte(text, n) end
    return number
  end
  function cmsgpack.pack(value)
    if type(value) == 'string' then return '\219' .. bytes_of(#value, 4) .. value end
    if value == true or value == false then return value and '\195' or '\194' end
    if type(value) == 'number' then
      return value < 0 and '\210' .. bytes_of(value + 4294967296, 4) or '\207' .. bytes_of(value, 8)
    end
    local parts = {'\221' .. bytes_of(#value, 4)}
    for n = 1, #value do parts[n + 1] = cmsgpack.pack(value[n]) end
    return table.concat(parts)
  end
  local function read(text, at)
    local tag = byte(text, at)
    local start, width, size = at + 1, nil, nil
    if tag < 128 then return tag, start end
    if tag >= 224 then return tag - 256, start end
    if tag == 192 then return nil, start end
    if tag == 194 or tag == 195 then return tag == 195, start end
    if tag >= 204 and tag <= 211 then
      width = 2 ^ ((tag - 204) % 4)
      local number = number_at(text, start, width)
      if tag >= 208 and byte(text, start) >= 128 then number = number - 256 ^ width end
      return number, start + width
    end
    if tag >= 144 and tag < 160 then size = tag - 144
    elseif tag >= 160 and tag < 192 then size = tag - 160
    else
      width = ({[217] = 1, [218] = 2, [219] = 4, [220] = 2, [221] = 4})[tag]
      if not width then error('no MessagePack that a script of ours was sent: ' .. tag) end
      size, start = number_at(text, start, width), start + width
    end
    if tag >= 160 and tag < 220 then return sub(text, start, start + size - 1), start + size end
    local list = {}
    for n = 1, size do list[n], start = read(text, start) end
    return list, start
  end
  function cmsgpack.unpack(text) return (read(text, 1)) end
  function struct.pack(format, number) return string.reverse(bytes_of(number, tonumber(sub(format, 3)))) end
end
"""
