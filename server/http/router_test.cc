#include "server/http/router.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <map>
#include <random>
#include <stdexcept>
#include <string>

#include "server/http/gzip.h"
#include "server/http/json.h"
#include "server/http/query_parameters.h"

namespace weft {
namespace {

HttpResponse Text(std::string body) { return {200, "text/plain", std::move(body), {}}; }

Router NodeRouter() {
  Router router;
  router.Get("/", [](const HttpRequest&) { return Text("page"); });
  router.Get("/nodes:slow", [](const HttpRequest&) { return Text("slow"); });
  router.Get("/nodes/{node}",
             [](const HttpRequest& request) { return Text("node " + request.path_parameters.at("node")); });
  router.Get("/query", [](const HttpRequest& request) { return Text(request.query.at("q")); });
  router.Get("/long", [](const HttpRequest&) { return Text(std::string(10'000, 'x')); });
  router.Get("/throws", [](const HttpRequest&) -> HttpResponse { throw std::runtime_error("secret"); });
  return router;
}

HttpResponse Get(const std::string& target, const std::string& accept_encoding = "") {
  return NodeRouter().Route({"GET", target, accept_encoding, "", ""});
}

QueryParameters Query(std::map<std::string, std::string> query) { return QueryParameters(std::move(query)); }

std::string Header(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

std::string Gunzip(const std::string& data) {
  z_stream stream{};
  inflateInit2(&stream, 15 + 16);
  std::string text(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  const int result = inflate(&stream, Z_FINISH);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return result == Z_STREAM_END ? text : "not gzip";
}

TEST(RouterTest, LiteralPathsAndPlaceholdersMatchWholeSegments) {
  EXPECT_EQ(Get("/").body, "page");
  EXPECT_EQ(Get("/nodes:slow").body, "slow");
  EXPECT_EQ(Get("/nodes/gpu-1").body, "node gpu-1");
  EXPECT_EQ(Get("/nodes/gpu-1/more").status, 404u);
  EXPECT_EQ(Get("/nodes/").status, 404u);
  EXPECT_EQ(Get("/node").status, 404u);
}

TEST(RouterTest, PathAndQueryAreDecodedOnce) {
  EXPECT_EQ(Get("/nodes/a%20b%252F").body, "node a b%2F");
  EXPECT_EQ(Get("/query?q=a%26b").body, "a&b");
  EXPECT_EQ(Get("/query?q=1&q=2").body, "2");
}

TEST(RouterTest, AnEncodedSlashStaysInsideItsSegment) {
  EXPECT_EQ(Get("/nodes/..%2F..%2Fetc").body, "node ../../etc");
  EXPECT_EQ(Get("/nodes/../../etc/passwd").status, 404u);
}

TEST(RouterTest, TargetsThatAreNoPathAreRefused) {
  for (const char* target :
       {"", "nodes", "http://other/", "*", "/%zz", "/%", "/nodes/%ff", "/query?q=%c3%28", "/a b", "/\x01"}) {
    EXPECT_EQ(Get(target).status, 400u) << target;
  }
}

TEST(RouterTest, OtherMethodsThanGetAndHeadAreNotAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get", ""}) {
    const HttpResponse response = NodeRouter().Route({method, "/", "", "", ""});
    EXPECT_EQ(response.status, 405u) << method;
    EXPECT_EQ(Header(response, "Allow"), "GET, HEAD");
  }
  EXPECT_EQ(NodeRouter().Route({"HEAD", "/", "", "", ""}).status, 200u);
}

TEST(RouterTest, AHandlerThatThrowsIsAnsweredWithoutItsWords) {
  const HttpResponse response = Get("/throws");
  EXPECT_EQ(response.status, 500u);
  EXPECT_EQ(response.body.find("secret"), std::string::npos);
}

TEST(RouterTest, LongBodiesAreCompressedForClientsThatTakeIt) {
  const HttpResponse response = Get("/long", "deflate, gzip;q=0.5");
  EXPECT_EQ(Header(response, "Content-Encoding"), "gzip");
  EXPECT_EQ(Gunzip(response.body), std::string(10'000, 'x'));
  EXPECT_EQ(Header(Get("/long"), "Content-Encoding"), "");
  EXPECT_EQ(Header(Get("/long"), "Vary"), "Accept-Encoding");
  EXPECT_EQ(Header(Get("/", "gzip"), "Content-Encoding"), "");
}

TEST(RouterTest, AnyTargetIsAnsweredAndNeverCrashes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::string alphabet("/%?&=:.0aF{}#\\ \xff\x00+;@[]", 23);
  const Router router = NodeRouter();
  for (int i = 0; i < 3'000; ++i) {
    std::string target = "/";
    for (size_t length = random() % 24; length > 0; --length) target += alphabet[random() % alphabet.size()];
    const unsigned status = router.Route({"GET", target, target, target, target}).status;
    // /query without q throws in its handler.
    EXPECT_TRUE(status == 200 || status == 400 || status == 404 || status == 500) << target;
  }
}

TEST(GzipTest, OnlyAClientThatNamesItGetsIt) {
  EXPECT_TRUE(AcceptsGzip("gzip"));
  EXPECT_TRUE(AcceptsGzip("br, GZIP ;q=0.1"));
  EXPECT_TRUE(AcceptsGzip("*"));
  EXPECT_FALSE(AcceptsGzip(""));
  EXPECT_FALSE(AcceptsGzip("identity"));
  EXPECT_FALSE(AcceptsGzip("gzip; q=0, *"));
  EXPECT_FALSE(AcceptsGzip("*;q=0.0"));
  EXPECT_FALSE(AcceptsGzip("xgzip"));
}

TEST(ErrorResponseTest, CarriesCodeMessageAndDetailsAsJson) {
  const HttpResponse response = ErrorResponse(absl::NotFoundError("no node \"<b>\xff"));
  EXPECT_EQ(response.status, 404u);
  EXPECT_EQ(response.content_type, "application/json");
  EXPECT_NE(response.body.find("\"code\":5"), std::string::npos) << response.body;
  EXPECT_NE(response.body.find("\"details\":[]"), std::string::npos) << response.body;
  EXPECT_EQ(response.body.find('<'), std::string::npos) << response.body;
}

TEST(ErrorResponseTest, EachCodeHasItsHttpStatus) {
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kInvalidArgument), 400u);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kAborted), 409u);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kResourceExhausted), 429u);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kUnavailable), 503u);
  EXPECT_EQ(HttpStatusOf(absl::StatusCode::kDataLoss), 500u);
}

TEST(QueryParametersTest, ValuesAreReadByType) {
  QueryParameters query =
      Query({{"n", "7"}, {"f", "0.5"}, {"b", ""}, {"t", "2026-05-01T06:00:00Z"}, {"s", "x"}});
  int32_t n = 0;
  double f = 0;
  bool b = false;
  absl::Time t;
  std::string s;
  query.Take("n", &n);
  query.Take("f", &f);
  query.Take("b", &b);
  query.Take("t", &t);
  query.Take("s", &s);
  EXPECT_TRUE(query.Finish().ok());
  EXPECT_EQ(n, 7);
  EXPECT_EQ(f, 0.5);
  EXPECT_TRUE(b);
  EXPECT_EQ(t, absl::FromUnixSeconds(1777615200));
  EXPECT_EQ(s, "x");
}

TEST(QueryParametersTest, BadValuesAndUnknownParametersAreRefusedByName) {
  QueryParameters number = Query({{"page_size", "many"}});
  int32_t n = 3;
  number.Take("page_size", &n);
  EXPECT_EQ(n, 3);
  EXPECT_EQ(number.Finish().message(), "page_size=many is not a whole number");
  QueryParameters nan = Query({{"below", "nan"}});
  double f = 0;
  nan.Take("below", &f);
  EXPECT_FALSE(nan.Finish().ok());
  QueryParameters forever = Query({{"since", "infinite-past"}});
  absl::Time t;
  forever.Take("since", &t);
  EXPECT_FALSE(forever.Finish().ok());
  EXPECT_EQ(Query({{"pagesize", "1"}}).Finish().message(), "unknown query parameter pagesize");
}

}  // namespace
}  // namespace weft
