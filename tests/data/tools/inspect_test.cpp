#include "data/tools/inspect.h"

#include <gmock/gmock.h>

#include "data/sources/source_test.h"
#include "data/tools/inspect_report.h"

namespace trainer::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string golden(const std::string& name) { return content("data/golden/decode/" + name); }

std::vector<std::pair<std::string, std::int64_t>> pairs(const std::vector<Count>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> all;
  for (const Count& each : counts) all.emplace_back(each.name, each.samples);
  return all;
}

std::vector<std::int64_t> indices(const SameContent& same) {
  std::vector<std::int64_t> all;
  for (const SameContent::Member& member : same.members) all.push_back(member.sample.index);
  return all;
}

class Inspect : public SourceTest {
 protected:
  // a: 0 grey.jpg, 1 progressive.jpg, 2 turned.jpg, 3 zcopy.jpg; b: 4 broken.jpg, 5 other.jpg.
  std::unique_ptr<Source> image_folder() const {
    write("images/a/grey.jpg", golden("grey.jpg"));
    write("images/a/progressive.jpg", golden("progressive.jpg"));
    write("images/a/turned.jpg", golden("orientation6.jpg"));
    write("images/a/zcopy.jpg", golden("grey.jpg"));
    const std::string whole = golden("rgb.jpg");
    write("images/b/broken.jpg", whole.substr(0, whole.size() - 100));
    write("images/b/other.jpg", golden("rgb.ppm"));
    config::ImageFolder config;
    config.path = (folder_ / "images").string();
    return make_source(config, 1);
  }
};

TEST_F(Inspect, CountsWhatItSees) {
  const auto source = image_folder();
  const Inspection found = inspect("train", *source, {});
  EXPECT_EQ(found.samples, 6);
  EXPECT_THAT(pairs(found.classes), ElementsAre(std::pair("a", 4), std::pair("b", 2)));
  EXPECT_THAT(pairs(found.formats),
              ElementsAre(std::pair("JPEG, baseline, grey", 2), std::pair("JPEG, baseline, RGB", 1),
                          std::pair("JPEG, progressive, RGB", 1), std::pair("PNM, RGB", 1)));
  EXPECT_EQ(found.turned, 1);
  std::int64_t bytes = -100;
  for (const char* name :
       {"grey.jpg", "progressive.jpg", "orientation6.jpg", "grey.jpg", "rgb.jpg", "rgb.ppm"})
    bytes += std::ssize(golden(name));
  EXPECT_EQ(found.bytes, bytes);
}

TEST_F(Inspect, NamesBrokenAndMisnamedFiles) {
  const auto source = image_folder();
  const Inspection found = inspect("train", *source, {});
  ASSERT_EQ(found.broken.size(), 1);
  EXPECT_EQ(found.broken[0].sample.index, 4);
  EXPECT_EQ(found.broken[0].sample.name, (folder_ / "images/b/broken.jpg").string());
  EXPECT_EQ(found.broken[0].sample.class_name, "b");
  EXPECT_THAT(found.broken[0].reason, HasSubstr("cut short"));
  ASSERT_EQ(found.misnamed.size(), 1);
  EXPECT_EQ(found.misnamed[0].sample.index, 5);
  EXPECT_EQ(found.misnamed[0].format, "PNM");
}

TEST_F(Inspect, HeadersAloneMissTheCutButGiveTheSameCounts) {
  const auto source = image_folder();
  const Inspection whole = inspect("train", *source, {});
  InspectOptions options;
  options.headers_only = true;
  const Inspection found = inspect("train", *source, options);
  EXPECT_THAT(found.broken, IsEmpty());
  EXPECT_THAT(found.duplicates, IsEmpty());
  EXPECT_EQ(found.bytes, whole.bytes);
  EXPECT_EQ(found.turned, whole.turned);
  EXPECT_EQ(found.misnamed.size(), 1);
}

TEST_F(Inspect, OrientationIsCountedWhereItIsNotAppliedToo) {
  const auto source = image_folder();
  InspectOptions options;
  const Inspection turned = inspect("train", *source, options);
  options.decode.exif_orientation = false;
  const Inspection stored = inspect("train", *source, options);
  EXPECT_EQ(stored.turned, 1);
  EXPECT_TRUE(turned.turns_applied);
  EXPECT_FALSE(stored.turns_applied);
}

TEST_F(Inspect, EqualFilesOfOneClass) {
  const auto source = image_folder();
  const Inspection found = inspect("train", *source, {});
  ASSERT_EQ(found.duplicates.size(), 1);
  EXPECT_THAT(indices(found.duplicates[0]), ElementsAre(0, 3));
  EXPECT_FALSE(found.duplicates[0].classes_differ);
}

// Pixels 2x1 of one channel.
MemorySource::Sample pixels(const std::string& bytes, std::int64_t label) {
  return {bytes, label, 1, 2, 1, 1};
}

TEST(InspectMemory, SpreadAndClassesOfPixels) {
  const MemorySource source({pixels("ab", 0), {"abc", 2, 1, 3, 1, 1}, {"abcd", 0, 1, 4, 1, 1}}, {});
  const Inspection found = inspect("train", source, {});
  EXPECT_EQ(found.height.least, 2);
  EXPECT_EQ(found.height.median, 3);
  EXPECT_EQ(found.height.most, 4);
  EXPECT_EQ(found.width.most, 1);
  EXPECT_EQ(found.pixels.median, 3);
  EXPECT_EQ(found.bytes, 9);
  EXPECT_THAT(pairs(found.classes), ElementsAre(std::pair("class 0", 2), std::pair("class 1", 0),
                                                std::pair("class 2", 1)));
  EXPECT_THAT(pairs(found.formats), ElementsAre(std::pair("pixels, grey", 3)));
  InspectReport report;
  report.sets = {found};
  EXPECT_THAT(report.problems(), ElementsAre("train: 1 class without a sample"));
}

TEST(InspectMemory, EqualContentInDifferentClassesAndInBothSets) {
  const MemorySource train(
      {pixels("ab", 0), pixels("cd", 1), pixels("ab", 1), pixels("ef", 0), pixels("gh", 0)},
      {"cat", "dog"});
  const MemorySource val({pixels("ef", 0), pixels("xy", 0), pixels("gh", 1)}, {"cat", "dog"});
  InspectReport report;
  report.sets = {inspect("train", train, {}), inspect("val", val, {})};
  report.in_both = in_both({train, report.sets[0]}, {val, report.sets[1]});
  ASSERT_EQ(report.sets[0].duplicates.size(), 1);
  EXPECT_THAT(indices(report.sets[0].duplicates[0]), ElementsAre(0, 2));
  EXPECT_TRUE(report.sets[0].duplicates[0].classes_differ);
  ASSERT_EQ(report.in_both.size(), 2);
  EXPECT_THAT(indices(report.in_both[0]), ElementsAre(3, 0));
  EXPECT_EQ(report.in_both[0].members[1].set, "val");
  EXPECT_FALSE(report.in_both[0].classes_differ);
  EXPECT_TRUE(report.in_both[1].classes_differ);
  EXPECT_THAT(report.problems(), ElementsAre("train: 1 content in different classes",
                                             "train and val: 1 content in different classes"));
}

TEST(InspectMemory, ProgressEndsWithAll) {
  const MemorySource source({pixels("ab", 0), pixels("cd", 1), pixels("ef", 2)}, {});
  std::int64_t last = 0;
  inspect("train", source, {}, [&last](std::int64_t done, std::int64_t all) {
    EXPECT_LE(done, all);
    last = done;
  });
  EXPECT_EQ(last, 3);
}

TEST(InspectMemory, AFailedReadIsABrokenSample) {
  const MemorySource source({pixels("ab", 0), pixels("broken", 1), pixels("cd", 2)}, {});
  const Inspection found = inspect("train", source, {});
  ASSERT_EQ(found.broken.size(), 1);
  EXPECT_EQ(found.broken[0].reason, "sample 1 of memory: broken");
}

TEST(InspectReport, CutsLongListsInTextOnly) {
  InspectReport report;
  Inspection set;
  set.name = "train";
  set.source = "many";
  set.samples = 60;
  for (int i = 0; i < 60; ++i) set.classes.push_back({"c" + std::to_string(i), 1 + i % 2});
  report.sets = {set};
  const std::string text = to_text(report, 50);
  EXPECT_THAT(text, HasSubstr("c49"));
  EXPECT_THAT(text, Not(HasSubstr("c50 ")));
  EXPECT_THAT(text, HasSubstr("and 10 more"));
  EXPECT_THAT(text, HasSubstr("smallest class c0 with 1, largest c1 with 2: ratio 0.5"));
  EXPECT_THAT(text, HasSubstr("no problem was found"));
  EXPECT_EQ(to_json(report).at("sets").at("train").at("classes").size(), 60);
}

}  // namespace
}  // namespace trainer::data
