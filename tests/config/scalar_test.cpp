#include "config/scalar.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace trainer::config {
namespace {

TEST(Classify, FollowsTheCoreSchema) {
  for (const char* text : {"0", "12", "-7", "+7", "0x1F", "0o17", "-0"})
    EXPECT_EQ(classify(text), ScalarKind::integer) << text;
  for (const char* text : {"1.", ".5", "1e-3", "1E+3", "-0.5", "0.0", "+12.5e2", "0e0"})
    EXPECT_EQ(classify(text), ScalarKind::number) << text;
  for (const char* text : {"010", "-01", "00", "01.5"})
    EXPECT_EQ(classify(text), ScalarKind::leading_zero) << text;
  for (const char* text : {".inf", "-.Inf", "+.INF", ".nan", ".NaN"})
    EXPECT_EQ(classify(text), ScalarKind::not_finite) << text;
  for (const char* text : {"", "~", "null", "Null", "NULL"})
    EXPECT_EQ(classify(text), ScalarKind::null) << text;
  for (const char* text : {"true", "True", "FALSE"})
    EXPECT_EQ(classify(text), ScalarKind::boolean) << text;
  for (const char* text :
       {"yes", "off",  "1_000", "1e",  "e3",  ".",     "-",     "+",    "0x",    "0o8",
        "0xg", "1:30", "1,5",   "inf", "nan", "-.nan", "1.2.3", "tRUE", "-0x1F", "0b1"})
    EXPECT_EQ(classify(text), ScalarKind::text) << text;
}

TEST(ParseInteger, KeepsSignAndReportsOverflow) {
  EXPECT_EQ(parse_integer("0x1F").magnitude, 31U);
  EXPECT_EQ(parse_integer("0o17").magnitude, 15U);
  EXPECT_TRUE(parse_integer("-12").negative);
  EXPECT_EQ(parse_integer("18446744073709551615").magnitude,
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(parse_integer("18446744073709551616").overflow);
}

TEST(ParseNumber, ReadsWhatFormatNumberWrites) {
  for (const double value : {0.0, 0.1, 1e-5, 1.0 / 3.0, 65536.0, 1e300, 5e-324, -2.5})
    EXPECT_EQ(parse_number(format_number(value)), value);
  EXPECT_EQ(parse_number("+.5"), 0.5);
  EXPECT_EQ(parse_number("0x10"), 16.0);
  EXPECT_TRUE(std::isinf(parse_number("1e999")));
  EXPECT_EQ(parse_number("1e-999"), 0.0);
}

TEST(ParseLength, ReadsEveryUnit) {
  using Unit = Length::Unit;
  const auto is = [](const char* text, double value, Unit unit) {
    const ParsedLength parsed = parse_length(text);
    ASSERT_TRUE(parsed.length) << text << ": " << parsed.problem;
    EXPECT_EQ(*parsed.length, (Length{value, unit})) << text;
    EXPECT_EQ(*parse_length(format_length(*parsed.length)).length, *parsed.length) << text;
  };
  is("500 steps", 500, Unit::steps);
  is("1 step", 1, Unit::steps);
  is("2.5 epochs", 2.5, Unit::epochs);
  is("1 epoch", 1, Unit::epochs);
  is("1M samples", 1e6, Unit::samples);
  is("1.5Ksamples", 1500, Unit::samples);
  is("300M tokens", 3e8, Unit::tokens);
  is("2G tokens", 2e9, Unit::tokens);
  is("30s", 30, Unit::seconds);
  is("0.5 s", 0.5, Unit::seconds);
  is("10min", 600, Unit::seconds);
  is("2h", 7200, Unit::seconds);
  is("1d", 86400, Unit::seconds);
  is("0 steps", 0, Unit::steps);
}

TEST(ParseLength, RefusesWhatIsNone) {
  for (const char* text : {"", "5", "steps", "-5 steps", "5. steps", ".5 epochs", "1e3 steps",
                           "5 steps 3", "5 Steps", "1M", "1Kmin", "0.0000001 epochs", "1\nsteps"})
    EXPECT_FALSE(parse_length(text).length) << text;
}

TEST(ParseSize, ReadsEveryUnit) {
  const auto is = [](const char* text, std::int64_t bytes) {
    const ParsedSize parsed = parse_size(text);
    ASSERT_TRUE(parsed.bytes) << text << ": " << parsed.problem;
    EXPECT_EQ(*parsed.bytes, bytes) << text;
    EXPECT_EQ(parse_size(format_size(bytes)).bytes, bytes) << text;
  };
  is("1", 1);
  is("4096", 4096);
  is("0x10", 16);
  is("+7", 7);
  is("1KiB", 1024);
  is("512MiB", 536'870'912);
  is("24GiB", 25'769'803'776);
  is("2TiB", 2'199'023'255'552);
  is("3kB", 3'000);
  is("5MB", 5'000'000);
  is("1.5GB", 1'500'000'000);
  is("1TB", 1'000'000'000'000);
  is("0.5 KiB", 512);
  is("1.3KiB", 1331);  // 1331.2
  is("010 MiB", 10'485'760);
  is("9223372036854775807", 9'223'372'036'854'775'807);
  is("8388607TiB", 9'223'370'937'343'148'032);
}

TEST(ParseSize, SaysWhatIsWrong) {
  const auto problem = [](const char* text) {
    const ParsedSize parsed = parse_size(text);
    EXPECT_FALSE(parsed.bytes) << text;
    return parsed.problem;
  };
  for (const char* text : {"0", "-0", "-5", "0MiB", "0.0GB", "0.0001kB", "-5MiB", "-1.5GB"})
    EXPECT_EQ(problem(text), "it has to be more than 0") << text;
  for (const char* text : {"9223372036854775808", "99999999999999999999", "8388608TiB",
                           "8388608.0TiB", "99999999999999999999GB"})
    EXPECT_EQ(problem(text), "the size is too large") << text;
  for (const char* text : {"1.5", "1e9", "1e999", ".5"})
    EXPECT_EQ(problem(text), "a number of bytes is whole; add a unit such as MiB") << text;
  for (const char* text : {"", "MiB", "1.MiB", ".5GiB", "much", "-", "true", ".inf"})
    EXPECT_EQ(problem(text), "a size starts with a number, as in 512MiB or 1.5GB") << text;
  EXPECT_EQ(problem("010"),
            "a leading zero means octal to some YAML readers, write the number without it");
}

TEST(ParseSize, SuggestsTheUnitThatWasMeant) {
  const auto suggests = [](const char* text, const std::string& unit, const std::string& right) {
    EXPECT_EQ(parse_size(text).problem,
              "unknown unit \"" + unit + "\"; did you mean \"" + right + "\"?");
  };
  suggests("8G", "G", "GiB");
  suggests("8Gi", "Gi", "GiB");
  suggests("8gib", "gib", "GiB");
  suggests("8 gb", "gb", "GB");
  suggests("8KB", "KB", "kB");
  suggests("8k", "k", "KiB");
  EXPECT_EQ(parse_size("8B").problem, "unknown unit \"B\"; a number alone is bytes");
  EXPECT_EQ(parse_size("8 bytes").problem, "unknown unit \"bytes\"; a number alone is bytes");
  EXPECT_EQ(parse_size("8PiB").problem,
            "unknown unit \"PiB\"; units are KiB, MiB, GiB, TiB, kB, MB, GB and TB");
  EXPECT_EQ(parse_size("8GiB x").problem,
            "unknown unit \"GiB x\"; units are KiB, MiB, GiB, TiB, kB, MB, GB and TB");
}

TEST(FormatSize, TakesTheLargestBinaryUnitThatDivides) {
  EXPECT_EQ(format_size(1), "1");
  EXPECT_EQ(format_size(1000), "1000");
  EXPECT_EQ(format_size(1024), "1KiB");
  EXPECT_EQ(format_size(1025), "1025");
  EXPECT_EQ(format_size(1'610'612'736), "1536MiB");
  EXPECT_EQ(format_size(1'500'000'000), "1500000000");
  EXPECT_EQ(format_size(std::int64_t{1} << 30), "1GiB");
  EXPECT_EQ(format_size(std::int64_t{3} << 50), "3072TiB");
}

TEST(ParseDevice, ReadsKindAndIndex) {
  EXPECT_EQ(parse_device("auto")->kind, DeviceKind::automatic);
  EXPECT_EQ(*parse_device("cuda:12"), (Device{DeviceKind::cuda, 12}));
  EXPECT_EQ(*parse_device("cuda"), (Device{DeviceKind::cuda, 0}));
  for (const char* text : {"", "cuda:", "cuda:-1", "cuda:01", "cuda:100", "cuda:x", "CPU"})
    EXPECT_FALSE(parse_device(text)) << text;
  EXPECT_EQ(format_device({DeviceKind::cuda, 3}), "cuda:3");
}

}  // namespace
}  // namespace trainer::config
