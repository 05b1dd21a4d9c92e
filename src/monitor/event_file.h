// TensorBoard's event files: TFRecord framing (tensorflow/core/lib/io/record_writer.h) around
// protocol buffers of type Event (tensorflow/core/util/event.proto), encoded by hand. Internal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/record.h"

namespace trainer::monitor {

// CRC-32C (Castagnoli; RFC 3720 appendix B.4).
std::uint32_t crc32c(std::string_view data);

// Length, its masked checksum, the data, its masked checksum.
std::string framed(std::string_view data);
// The data of the next whole record of `bytes`, which is moved past it; nullopt at the end or where
// a record is cut short or its checksums are wrong.
std::optional<std::string_view> next_record(std::string_view& bytes);

// The first event of a file, which names the format.
std::string version_event(double wall_time);
// One event with each field but `step` as a scalar. wall_time: seconds since 1970.
std::string scalar_event(double wall_time, const Record& record);
// The step of an event, 0 where it has none; nullopt where it is not a protocol buffer.
std::optional<std::int64_t> event_step(std::string_view event);

}  // namespace trainer::monitor
