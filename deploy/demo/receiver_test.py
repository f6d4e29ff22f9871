"""The receiver believes only fresh Standard Webhooks signatures."""

import time
import unittest
import urllib.request

from demo import receiver

SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
BODY = '{"type":"alert.opened","data":{"node":"nöde-1"}}'.encode()
AT = 1767225600
HEADERS = {
    "webhook-id": "evt_0001",
    "webhook-timestamp": str(AT),
    "webhook-signature": "v1,LtnvTzyYBesSm9oMqxHBOWIpXpDoDNmQsWJCmGG6uII=",
}


class SignatureTest(unittest.TestCase):
    def test_known_vector_is_valid(self):
        self.assertTrue(receiver.signature_valid(SECRET, HEADERS, BODY, AT))

    def test_one_valid_signature_of_several_is_enough(self):
        headers = dict(HEADERS)
        headers["webhook-signature"] = "v1,AAAA v2,x " + HEADERS["webhook-signature"]
        self.assertTrue(receiver.signature_valid(SECRET, headers, BODY, AT))

    def test_changed_body_is_invalid(self):
        self.assertFalse(receiver.signature_valid(SECRET, HEADERS, BODY + b" ", AT))

    def test_other_secret_is_invalid(self):
        self.assertFalse(receiver.signature_valid(receiver.new_secret(), HEADERS, BODY, AT))

    def test_old_timestamp_is_invalid(self):
        self.assertFalse(receiver.signature_valid(SECRET, HEADERS, BODY, AT + 301))

    def test_missing_or_garbled_headers_are_invalid(self):
        for name in HEADERS:
            for value in ("", "v1,***", "-1"):
                self.assertFalse(receiver.signature_valid(SECRET, {**HEADERS, name: value}, BODY, AT), (name, value))


class ReceiverTest(unittest.TestCase):
    def setUp(self):
        self.receiver = receiver.Receiver("127.0.0.1", SECRET)
        self.addCleanup(self.receiver.close)

    def post(self, headers):
        urllib.request.urlopen(urllib.request.Request(self.receiver.url, BODY, headers), timeout=10).close()

    def test_repeat_counts_once(self):
        self.post(HEADERS)
        self.post(HEADERS)
        self.assertEqual(len(self.receiver.received()), 1)

    def test_unsigned_is_recorded_as_invalid(self):
        self.post({"webhook-id": "evt_2", "webhook-timestamp": str(int(time.time()))})
        self.assertEqual([e["signature_valid"] for e in self.receiver.received()], [False])


if __name__ == "__main__":
    unittest.main()
