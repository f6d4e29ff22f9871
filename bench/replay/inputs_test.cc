#include "bench/replay/inputs.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace weft {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InputsTest : public ::testing::Test {
 protected:
  ~InputsTest() override { std::filesystem::remove(path_); }
  const std::string& Write(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return path_;
  }

 private:
  std::string path_ =
      ::testing::TempDir() + "/" + ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".in";
};

TEST_F(InputsTest, FloatsAreReadRowByRow) {
  const float numbers[] = {1, 2, 3, NAN, 5, 6};
  const auto rows =
      ReadFloats(Write(std::string(reinterpret_cast<const char*>(numbers), sizeof(numbers))), 2, 3);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT((*rows)[0], ElementsAre(1, 2, 3));
  EXPECT_TRUE(std::isnan((*rows)[1][0]));
  EXPECT_EQ((*rows)[1][2], 6);
}

TEST_F(InputsTest, FloatsOfAnotherSizeAreRefused) {
  const std::string& path = Write(std::string(23, 'x'));
  for (const size_t cols : {0, 1, 2, 3}) {
    const auto rows = ReadFloats(path, 2, cols);
    EXPECT_EQ(rows.status().code(), absl::StatusCode::kInvalidArgument) << cols;
    EXPECT_THAT(std::string(rows.status().message()), HasSubstr(path));
  }
  EXPECT_EQ(ReadFloats(path + ".not", 1, 1).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(InputsTest, CohortsOfRowsMustNameEachRowOnce) {
  EXPECT_THAT(ReadCohortOfRows(Write("row,cohort\n1,7\n0,-1\n"), 2).value(), ElementsAre(-1, 7));
  for (const char* text :
       {"0,1\n1,1\n", "row,cohort\n0,1\n", "row,cohort\n0,1\n0,1\n", "row,cohort\n0,1\n2,1\n",
        "row,cohort\n0,1\n1,x\n", "row,cohort\n0,1\n1\n", "row,cohort\n0,1\n1,-2\n"}) {
    EXPECT_EQ(ReadCohortOfRows(Write(text), 2).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST_F(InputsTest, CohortsHoldRowsOfNumbers) {
  const auto cohorts = ReadCohorts(Write(R"([{"x":[[1,2.5],[null,3]]},{"x":[]}])"));
  ASSERT_TRUE(cohorts.ok()) << cohorts.status();
  ASSERT_EQ(cohorts->size(), 2U);
  EXPECT_EQ((*cohorts)[0][0][1], 2.5);
  EXPECT_TRUE(std::isnan((*cohorts)[0][1][0]));
  for (const char* text : {"", "{", "{}", "[1]", R"([{"y":[]}])", R"([{"x":[1]}])", R"([{"x":[["a"]]}])"}) {
    EXPECT_EQ(ReadCohorts(Write(text)).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST_F(InputsTest, FabricsHoldRoundsOfRuns) {
  const char* text = R"([{"n":4,"rounds":[[[0,1,10],[2,3,11.5]],[[0,2,9]]]}])";
  const auto fabrics = ReadFabrics(Write(text), 1);
  ASSERT_TRUE(fabrics.ok()) << fabrics.status();
  ASSERT_EQ((*fabrics)[0].runs.size(), 2U);
  EXPECT_EQ((*fabrics)[0].runs[1].b, 3U);
  EXPECT_EQ(ReadFabrics(Write(text), 9).value()[0].runs.size(), 3U);
  for (const char* bad : {R"([{"n":4}])", R"([{"n":-1,"rounds":[]}])", R"([{"n":4,"rounds":[[[0,4,1]]]}])",
                          R"([{"n":4,"rounds":[[[0,0,1]]]}])", R"([{"n":4,"rounds":[[[0,1]]]}])",
                          R"([{"n":4,"rounds":[[[0,1.5,1]]]}])", R"([{"n":4,"rounds":[7]}])"}) {
    EXPECT_EQ(ReadFabrics(Write(bad), 9).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace weft
