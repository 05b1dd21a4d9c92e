#include "monitor/event_file.h"

#include "support.h"

namespace trainer::monitor {
namespace {

TEST(EventFile, ChecksumIsCrc32c) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);              // the check value of the CRC catalogue
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);    // RFC 3720 appendix B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);  // the same
  EXPECT_EQ(crc32c(""), 0U);
}

// The bytes of protocol buffers, by hand from event.proto and the encoding's specification.
TEST(EventFile, BytesOfEvents) {
  const std::string time("\x09\0\0\0\0\0\0\xf8\x3f", 9);  // field 1, double 1.5
  EXPECT_EQ(version_event(1.5), time + "\x1a\x0d" + "brain.Event:2");
  Record record = step_record(300, 0.5);
  // step: field 2, 300 = 0xAC 0x02; summary: field 5; value: field 1; tag: field 1; float: field 2.
  EXPECT_EQ(scalar_event(1.5, record), time + "\x10\xac\x02" + "\x2a\x0d" + "\x0a\x0b" +
                                           "\x0a\x04loss" + std::string("\x15\0\0\0\x3f", 5));
}

TEST(EventFile, StepOfAnEvent) {
  EXPECT_EQ(event_step(version_event(1)), 0);
  EXPECT_EQ(event_step(scalar_event(1, step_record(123456789012, 1))), 123456789012);
  EXPECT_EQ(event_step("\x07"), std::nullopt);      // no such wire type
  EXPECT_EQ(event_step("\x10\xff"), std::nullopt);  // a number cut short
  EXPECT_EQ(event_step("\x2a\x7f"), std::nullopt);  // longer than the event
}

TEST(EventFile, RecordsReadBackUntilDamage) {
  const std::string file = framed("first") + framed("") + framed("third");
  std::string_view rest = file;
  EXPECT_EQ(next_record(rest), "first");
  EXPECT_EQ(next_record(rest), "");
  EXPECT_EQ(next_record(rest), "third");
  EXPECT_EQ(next_record(rest), std::nullopt);

  const std::string one = framed("first");
  for (std::size_t size = 0; size < one.size(); ++size) {
    std::string_view cut = std::string_view(one).substr(0, size);
    EXPECT_EQ(next_record(cut), std::nullopt) << size;
  }
  for (std::size_t byte = 0; byte < one.size(); ++byte) {
    std::string damaged = one;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 1);
    std::string_view view = damaged;
    EXPECT_EQ(next_record(view), std::nullopt) << byte;
  }
}

}  // namespace
}  // namespace trainer::monitor
