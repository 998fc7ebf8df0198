"""Names and passwords that are not ASCII log in to MySQL and MariaDB as they do everywhere else."""

from urllib.parse import quote, urlsplit

import pytest

from octavo import Add, ConfigError, Record, open_store
from octavo.stores.sql.statements import Do

LOGINS = (("octavo_a", "密码"), ("octavo_b", "pässwörd"), ("用户", "p@ss:w/rd?#%"), ("octavo_d", "🔑 ключ"))


@pytest.mark.parametrize(("user", "password"), LOGINS, ids=[user for user, _ in LOGINS])
async def test_any_password_logs_in(fresh_mysql, user, password):
    """The password of a URL is sent in UTF-8, as the server was told it."""
    parts = urlsplit(fresh_mysql)
    account = f"'{user}'@'%'"
    async with open_store(fresh_mysql) as root:
        send = root._driver.send
        async with root._driver.connection() as connection:
            await send(connection, Do(f"CREATE USER {account} IDENTIFIED BY '{password}'"))
            await send(connection, Do(f"GRANT ALL ON {parts.path.strip('/')}.* TO {account}"))
        place = f"{quote(user)}:{quote(password, safe='')}@{parts.hostname}:{parts.port}"
        try:
            async with open_store(parts._replace(netloc=place).geturl()) as store:
                assert await store.apply([Add([Record(collection="messages", text="a")])]) == [1]
        finally:
            async with root._driver.connection() as connection:
                await send(connection, Do(f"DROP USER {account}"))


def test_a_password_that_is_no_text_is_refused():
    """Bytes of the environment that are not UTF-8 are a ConfigError, which does not show them."""
    with pytest.raises(ConfigError, match="not a usable database URL") as refusal:
        open_store("mysql://octavo:geheim\udcff@localhost/octavo")
    assert "geheim" not in str(refusal.value)
