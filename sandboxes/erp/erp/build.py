"""Makes the database with which the ERP begins: `python build.py FILE`.

Tryton itself makes it: its modules are activated, and its own models write the story below. Only
times are set afterwards, so that the same versions give the same rows. It takes about a minute, so
the sandbox keeps what it makes (`statediff_erp/base.py`). `--schema` writes the schema
file beside this program as well; `--like OTHER` ends with 1 where the rows are not those of the
file OTHER, or the schema file is not what it makes.
"""

import argparse
import contextlib
import datetime as dt
import hashlib
import os
import sqlite3
import sys
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

DATABASE = "erp"
MODULES = (
    "account_invoice",
    "account_invoice_stock",
    "product_price_list_dates",
    "purchase",
    "sale_price_list",
    "stock_inventory_location",
)
TODAY = dt.date(2026, 3, 16)
MADE_AT = "2026-03-16 08:00:00"
"""When all rows of the base were made and last changed."""
AGENT = "robin"
AGENT_GROUPS = (
    "Accounting",
    "Accounting Administration",
    "Party Administration",
    "Product Administration",
    "Purchase",
    "Sales",
    "Stock",
)
PERMISSIONS = (
    # model, logical type
    ("res.user", "user"),
    ("res.group", "group"),
    ("res.user-res.group", "user_group"),
    ("res.user.application", "user_application"),
    ("res.user-company.company", "user_company"),
    ("ir.model.access", "access_rule"),
    ("ir.model.field.access", "field_access_rule"),
    ("ir.model.button-res.group", "button_group"),
    ("ir.model.button.rule", "button_rule"),
    ("ir.rule.group", "record_rule_group"),
    ("ir.rule", "record_rule"),
    ("ir.rule.group-res.group", "record_rule_for_group"),
    ("ir.action-res.group", "action_group"),
)
LOGICAL = (
    *PERMISSIONS,
    ("ir.session", "session"),
    ("ir.session.wizard", "wizard_session"),
    ("res.user.login.attempt", "login_attempt"),
    ("res.user.device", "user_device"),
    ("res.user.warning", "skipped_warning"),
    ("ir.model.log", "event"),
    ("ir.queue", "job"),
    ("ir.sequence", "sequence"),
    ("ir.sequence.strict", "strict_sequence"),
    ("ir.note", "note"),
    ("ir.note.read", "note_read"),
    ("ir.attachment", "attachment"),
    ("company.company", "company"),
    ("party.party", "party"),
    ("party.address", "address"),
    ("party.contact_mechanism", "contact"),
    ("party.identifier", "party_identifier"),
    ("product.product", "product"),
    ("product.template", "product_template"),
    ("product.price_list", "price_list"),
    ("product.price_list.line", "price_list_line"),
    ("sale.sale", "sale"),
    ("sale.line", "sale_line"),
    ("purchase.purchase", "purchase"),
    ("purchase.line", "purchase_line"),
    ("purchase.product_supplier", "supplier_product"),
    ("purchase.product_supplier.price", "supplier_price"),
    ("stock.location", "location"),
    ("stock.move", "stock_move"),
    ("stock.shipment.out", "shipment_out"),
    ("stock.shipment.in", "shipment_in"),
    ("stock.inventory", "inventory"),
    ("stock.inventory.line", "inventory_line"),
    ("account.invoice", "invoice"),
    ("account.invoice.line", "invoice_line"),
    ("account.invoice.line-stock.move", "invoice_line_stock_move"),
    ("account.account", "account"),
    ("account.journal", "journal"),
    ("account.fiscalyear", "fiscal_year"),
    ("account.period", "period"),
    ("account.journal.period", "journal_period"),
    ("account.move", "entry"),
    ("account.move.line", "entry_line"),
    ("account.move.reconciliation", "reconciliation"),
)
"""What contracts speak of; every other table keeps its own name."""
LOGICAL_FIELDS = {
    "create_date": "created_at",
    "create_uid": "created_by",
    "write_date": "changed_at",
    "write_uid": "changed_by",
}
STAMPS = ("create_date", "write_date")
VARIES = {
    "ir_avatar": {"image", "uuid"},
    "ir_model_data": {"id"},
    "ir_module": {"id"},
    "ir_module_dependency": {"id", "module"},
}
"""Columns that differ each time: avatars are drawn, modules are numbered as folders list them."""
SECRETS = {"password_hash", "password_reset", "key", "cookie"}
CUSTOMERS = (
    ("Lindqvist Primary School", "Kungsgatan 14", "Lund", "office@lindqvist.example"),
    ("Harbour Dental Clinic", "Quay Road 3", "Cork", "reception@harbourdental.example"),
    ("Brandt & Sohn Architekten", "Ahornweg 21", "Kiel", "buero@brandtsohn.example"),
    ("Vermeer Legal", "Prinsengracht 80", "Delft", "post@vermeerlegal.example"),
    ("Oakfield Community College", "Elm Lane 1", "Galway", "stores@oakfield.example"),
    ("Café Marguerite", "Rue des Lilas 9", "Nantes", "bonjour@marguerite.example"),
    ("Aalto Engineering", "Satamakatu 5", "Turku", "purchasing@aalto.example"),
    ("Aalto Enginering Oy", "Satamakatu 5", "Turku", "invoices@aalto.example"),
)
SUPPLIERS = (
    ("Paperworks Rhine", "Hafenstrasse 2", "Mainz", "orders@paperworks.example"),
    ("Nordic Stationery", "Havnegade 30", "Aarhus", "sales@nordicstationery.example"),
    ("Quillon Import", "Via Roma 12", "Trieste", "desk@quillon.example"),
)
PRODUCTS = (
    # code, name, list price, cost, in stock
    ("PAP-A4", "Copy paper A4, 500 sheets", "5.40", "3.10", 240),
    ("PAP-A3", "Copy paper A3, 500 sheets", "10.90", "6.50", 60),
    ("PEN-BL", "Ballpoint pen, blue, box of 50", "14.50", "8.20", 85),
    ("BND-A4", "Lever arch binder A4", "3.20", "1.70", 150),
    ("STP-01", "Stapler, full strip", "18.90", "10.40", 22),
    ("TON-26", "Toner cartridge 26X", "89.00", "61.00", 12),
    ("CHR-ER", "Desk chair, ergonomic", "249.00", "158.00", 4),
    ("WHB-12", "Whiteboard 120 x 90", "74.50", "46.00", 9),
)


SCHEMA = Path(__file__).with_name("schema.yaml")


def main() -> int:
    """0 where all is as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--schema", action="store_true")
    parser.add_argument("--like", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        image, schema = made(Path(folder))
    given.file.write_bytes(image)
    if given.schema:
        SCHEMA.write_text(schema, encoding="utf-8")
    if given.like is None:
        return 0
    kept, now = contents(given.like.read_bytes()), contents(image)
    stale = sorted(name for name in kept.keys() | now.keys() if kept.get(name) != now.get(name))
    if SCHEMA.read_text(encoding="utf-8") != schema:
        stale.append(SCHEMA.name)
    for name in stale:
        print(f"{name} is not what is made now", file=sys.stderr)
    return 1 if stale else 0


def contents(image: bytes) -> dict[str, str]:
    """Table → digest of its definition and rows."""
    found = {}
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(image)
        for name, sql in connection.execute(
            "SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name"
        ).fetchall():
            listed = connection.execute(f'PRAGMA table_info("{name}")').fetchall()
            columns = [f'"{row[1]}"' for row in listed if row[1] not in VARIES.get(name, ())]
            query = f'SELECT {", ".join(columns)} FROM "{name}"'
            rows = sorted(map(repr, connection.execute(query)))
            found[name] = hashlib.sha256("\n".join([str(sql), *rows]).encode()).hexdigest()
    return found


def made(folder: Path) -> tuple[bytes, str]:
    """The bytes of the database, and the schema file."""
    file = folder / f"{DATABASE}.sqlite"
    _configure(folder)
    _activate()
    _tell()
    from trytond.pool import Pool

    with contextlib.ExitStack() as stack:
        written, kept = (
            stack.enter_context(contextlib.closing(sqlite3.connect(place, isolation_level=None)))
            for place in (file, ":memory:")
        )
        written.backup(kept)
        _settle(kept)
        return kept.serialize(), _schema(Pool(DATABASE), kept)


def _configure(folder: Path) -> None:
    from trytond import config

    config.set("database", "uri", "sqlite://")
    config.set("database", "path", str(folder))
    config.set("email", "uri", "smtp://127.0.0.1:1")


def _activate() -> None:
    import trytond.ir.date
    from trytond import backend
    from trytond.pool import Pool
    from trytond.transaction import Transaction

    trytond.ir.date.Date.today = staticmethod(lambda timezone=None: TODAY)
    backend.Database().connect()
    with Transaction().start(None, 0, close=True) as transaction:
        transaction.database.create(transaction.connection, DATABASE)
    with Transaction().start(DATABASE, 0, close=True) as transaction:
        transaction.database.init()
    Pool.start()
    Pool(DATABASE).init(update=["ir", "res", *MODULES], lang=["en"], activatedeps=True)


def _schema(pool: Any, connection: sqlite3.Connection) -> str:
    """The schema file: the logical types, and what each field of them refers to."""
    names = {pool.get(model)._table: name for model, name in LOGICAL}
    lines = [
        "# The logical entities of the ERP, what contracts speak of. build.py makes this file.",
        "schema: erp",
        "version: 1.0.0",
        "entities:",
    ]
    for model, name in LOGICAL:
        Model = pool.get(model)
        lines += [f"  {name}:", f"    table: {Model._table}"]
        if (model, name) in PERMISSIONS:
            lines.append("    holds: permissions")
        fields = []
        columns = {row[1] for row in connection.execute(f'PRAGMA table_info("{Model._table}")')}
        for column in sorted(columns - {"id"}):
            said = _said(pool, names, column, Model._fields[column])
            logical = LOGICAL_FIELDS.get(column, column)
            if logical != column:
                said = [f"column: {column}", *said]
            if said:
                fields.append(f"      {logical}: {{{', '.join(said)}}}")
        if fields:
            lines += ["    fields:", *fields]
    return "\n".join(lines) + "\n"


def _said(pool: Any, names: dict[str, str], column: str, field: Any) -> list[str]:
    if field._type == "many2one":
        table = pool.get(field.model_name)._table
        return [f"to: {names.get(table, table)}"]
    if field._type in {"float", "numeric"}:
        return ["type: decimal"]
    if field._type in {"timestamp", "datetime"}:
        return ["type: timestamp, zone: UTC"]
    if column in SECRETS:
        return ["digest_above_bytes: 0"]
    return []


def _tell() -> None:
    from trytond.pool import Pool
    from trytond.transaction import Transaction, TransactionError

    Pool(DATABASE).init()
    extras: dict[str, Any] = {}
    while True:
        context = {"_skip_warnings": True}
        with Transaction().start(DATABASE, 0, context=context, **extras) as transaction:
            try:
                story = Story(Pool(DATABASE))
                story.begin()
                with transaction.set_context(story.context):
                    story.tell()
            except TransactionError as error:  # it wants a table locked from the beginning
                transaction.rollback()
                error.fix(extras)
                continue
            transaction.commit()
            break
    with Transaction().start(DATABASE, 0, close=True):
        pass


class Story:
    """A trader in office supplies, in the middle of March 2026."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self.context: dict[str, Any] = {"_skip_warnings": True}

    def begin(self) -> None:
        """There is a company, and the people who work for it."""
        Currency, Company, Party = self.models(
            "currency.currency", "company.company", "party.party"
        )
        self.euro = Currency(name="Euro", code="EUR", symbol="€", numeric_code="978")
        self.euro.save()
        party = Party(name="Northgate Office Supplies")
        party.save()
        self.company = Company(party=party, currency=self.euro)
        self.company.save()
        self.context["company"] = self.company.id
        self.context["companies"] = [self.company.id]
        User, Group = self.models("res.user", "res.group")
        admin = User(login="admin", name="Administrator", administrator=True)
        admin.save()
        people = (
            (AGENT, "Robin Hale", AGENT_GROUPS),
            ("marta", "Marta Lind", ("Accounting", "Accounting Administration")),
            ("jonas", "Jonas Weber", ("Stock", "Stock Administration", "Stock Force Assignment")),
            ("petra", "Petra Novak", ("Purchase", "Purchase Administrator", "Sales")),
        )
        self.users = {}
        for login, name, groups in people:
            user = User(login=login, name=name, companies=[self.company], company=self.company)
            user.groups = Group.search([("name", "in", list(groups))])
            assert len(user.groups) == len(groups), groups
            user.save()
            self.users[login] = user

    def tell(self) -> None:
        """Books, partners, goods, and what is going on."""
        self.books()
        self.partners()
        self.goods()
        self.price_lists()
        self.suppliers_prices()
        self.entries()
        self.sales()
        self.purchases()

    def models(self, *names: str) -> tuple[Any, ...]:
        return tuple(self.pool.get(name) for name in names)

    def one(self, model: str, *domain: Any) -> Any:
        (found,) = self.pool.get(model).search(list(domain))
        return found

    def books(self) -> None:
        """A chart of accounts, and the fiscal year 2026: January closed, the rest open."""
        Template, Data = self.models("account.account.template", "ir.model.data")
        Chart = self.pool.get("account.create_chart", type="wizard")
        session, _, _ = Chart.create()
        chart = Chart(session)
        chart.account.company = self.company
        chart.account.account_template = Template(Data.get_id("account.account_template_root_en"))
        chart.transition_create_account()
        Account = self.pool.get("account.account")
        accounts = {
            kind: Account.search(
                [(f"type.{kind}", "=", True), ("closed", "!=", True)],
                order=[("id", "ASC")],
                limit=1,
            )[0]
            for kind in ("receivable", "payable", "revenue", "expense")
        }
        self.accounts = accounts
        chart.properties.company = self.company
        chart.properties.account_receivable = accounts["receivable"]
        chart.properties.account_payable = accounts["payable"]
        chart.transition_create_properties()
        Chart.delete(session)
        self.accounts["cash"] = Account.search([("name", "=", "Cash and Cash Equivalents")])[0]
        expense = accounts["expense"]
        for code, name, like in (
            ("6110", "Rent", expense),
            ("6120", "Repairs and maintenance", expense),
            ("6130", "Travel", expense),
            ("1010", "Bank", self.accounts["cash"]),
        ):
            (account,) = Account.copy([like], default={"name": name, "code": code})
            self.accounts[name] = account
        Year, Sequence, _ = self.models(
            "account.fiscalyear", "ir.sequence.strict", "ir.sequence.type"
        )

        def sequence(name: str, of: str, prefix: str) -> Any:
            made = Sequence(
                name=name, company=self.company, prefix=prefix, padding=4,
                sequence_type=self.one("ir.sequence.type", ("name", "=", of)),
            )  # fmt: skip
            made.save()
            return made

        year = Year(
            name="2026", company=self.company,
            start_date=dt.date(2026, 1, 1), end_date=dt.date(2026, 12, 31),
            move_sequence=sequence("Entries 2026", "Account Move", "E"),
        )  # fmt: skip
        Invoices = self.pool.get("account.fiscalyear.invoice_sequence")
        year.invoice_sequences = [
            Invoices(
                company=self.company,
                out_invoice_sequence=sequence("Customer invoices 2026", "Invoice", "INV"),
                out_credit_note_sequence=sequence("Customer credit notes 2026", "Invoice", "CN"),
                in_invoice_sequence=sequence("Supplier invoices 2026", "Invoice", "SI"),
                in_credit_note_sequence=sequence("Supplier credit notes 2026", "Invoice", "SC"),
            )
        ]
        year.save()
        Year.create_period([year])
        self.periods = sorted(year.periods, key=lambda period: period.start_date)
        Journal = self.pool.get("account.journal")
        self.journals = {journal.type: journal for journal in Journal.search([])}
        Term, Line = self.models(
            "account.invoice.payment_term", "account.invoice.payment_term.line"
        )
        Delta = self.pool.get("account.invoice.payment_term.line.delta")
        self.term = Term(
            name="30 days", lines=[Line(type="remainder", relativedeltas=[Delta(days=30)])]
        )
        self.term.save()

    def partners(self) -> None:
        """Customers and suppliers, with an address and an e-mail address each."""
        Party, Address, Contact = self.models(
            "party.party", "party.address", "party.contact_mechanism"
        )
        self.parties = {}
        for name, street, city, email in CUSTOMERS + SUPPLIERS:
            party = Party(name=name)
            party.addresses = [
                Address(street_unstructured=street, city=city, invoice=True, delivery=True)
            ]
            party.contact_mechanisms = [Contact(type="email", value=email)]
            if name in {customer[0] for customer in CUSTOMERS}:
                party.customer_payment_term = self.term
            else:
                party.supplier_payment_term = self.term
            party.save()
            self.parties[name] = party

    def goods(self) -> None:
        """Products with prices and accounts, and a count of the stock at the beginning of March."""
        Category, Template, Product = self.models(
            "product.category", "product.template", "product.product"
        )
        category = Category(
            name="Goods", accounting=True,
            account_expense=self.accounts["expense"], account_revenue=self.accounts["revenue"],
        )  # fmt: skip
        category.save()
        unit = self.one("product.uom", ("name", "=", "Unit"))
        self.products = {}
        for code, name, price, cost, _stock in PRODUCTS:
            template = Template(
                name=name, type="goods", default_uom=unit, list_price=Decimal(price),
                salable=True, sale_uom=unit, purchasable=True, purchase_uom=unit,
                account_category=category,
            )  # fmt: skip
            template.products = [Product(suffix_code=code, cost_price=Decimal(cost))]
            template.save()
            (self.products[code],) = template.products
        Inventory, Line = self.models("stock.inventory", "stock.inventory.line")
        self.storage = self.one("stock.location", ("code", "=", "STO"))
        count = Inventory(location=self.storage, date=dt.date(2026, 3, 2))
        count.company = self.company
        count.lines = [
            Line(product=self.products[code], quantity=stock) for code, _, _, _, stock in PRODUCTS
        ]
        count.save()
        Inventory.confirm([count])

    def price_lists(self) -> None:
        """Schools pay less; the college has a list of its own."""
        PriceList, Line = self.models("product.price_list", "product.price_list.line")

        def made(name: str, *lines: tuple[str | None, str]) -> Any:
            price_list = PriceList(
                name=name, company=self.company, price="list_price", unit="product_default"
            )
            price_list.lines = [
                Line(
                    sequence=10 * at,
                    product=None if code is None else self.products[code],
                    formula=formula,
                )
                for at, (code, formula) in enumerate(lines, 1)
            ]
            price_list.save()
            return price_list

        self.schools = made(
            "Schools 2026",
            ("PAP-A4", "4.90"),
            ("BND-A4", "2.80"),
            (None, "unit_price * 0.95"),
        )
        self.offices = made("Offices 2026", ("TON-26", "84.00"), (None, "unit_price"))
        for name in ("Lindqvist Primary School", "Oakfield Community College"):
            self.parties[name].sale_price_list = self.schools
            self.parties[name].save()

    def suppliers_prices(self) -> None:
        """Who sells what to us, from which quantity on at which price."""
        Supplier, Price = self.models(
            "purchase.product_supplier", "purchase.product_supplier.price"
        )
        for name, code, *prices in (
            ("Paperworks Rhine", "PAP-A4", (0, "3.10"), (200, "2.95")),
            ("Paperworks Rhine", "PAP-A3", (0, "6.50")),
            (
                "Nordic Stationery",
                "PAP-A4",
                (0, "3.05"),
            ),
            ("Nordic Stationery", "BND-A4", (0, "1.70")),
            ("Nordic Stationery", "TON-26", (0, "61.00")),
            ("Quillon Import", "TON-26", (0, "58.50")),
            ("Quillon Import", "CHR-ER", (0, "158.00")),
        ):
            supplier = Supplier(
                party=self.parties[name], product=self.products[code], company=self.company,
                template=self.products[code].template, currency=self.euro,
                prices=[Price(quantity=n, unit_price=Decimal(price)) for n, price in prices],
            )  # fmt: skip
            supplier.save()

    def entry(
        self,
        date: dt.date,
        journal: str,
        text: str,
        *lines: tuple[str, str, str],
        post: bool = True,
    ) -> Any:
        """An entry of the general ledger: account, debit, credit."""
        Move, Line = self.models("account.move", "account.move.line")
        period = next(p for p in self.periods if p.start_date <= date <= p.end_date)
        move = Move(
            company=self.company, period=period, journal=self.journals[journal], date=date,
            description=text,
            lines=[
                Line(account=self.accounts[account], debit=Decimal(debit), credit=Decimal(credit))
                for account, debit, credit in lines
            ],
        )  # fmt: skip
        move.save()
        if post:
            Move.post([move])
        return move

    def entries(self) -> None:
        """The rent of three months, the last on a wrong account; a draft of February."""
        Period = self.pool.get("account.period")
        self.entry(
            dt.date(2026, 1, 5),
            "cash",
            "Rent January",
            ("Rent", "1850", "0"),
            ("Bank", "0", "1850"),
        )
        self.entry(
            dt.date(2026, 1, 20),
            "cash",
            "Train to Hamburg",
            ("Travel", "126.40", "0"),
            ("Bank", "0", "126.40"),
        )
        Period.close(self.periods[:1])
        self.entry(
            dt.date(2026, 2, 4),
            "cash",
            "Rent February",
            ("Rent", "1850", "0"),
            ("Bank", "0", "1850"),
        )
        self.entry(
            dt.date(2026, 2, 18),
            "cash",
            "Repair of the loading ramp",
            ("Repairs and maintenance", "412.75", "0"),
            ("Bank", "0", "412.75"),
        )
        self.entry(
            dt.date(2026, 2, 26),
            "cash",
            "Hotel Aarhus, two nights",
            ("Travel", "238", "0"),
            ("Bank", "0", "238"),
            post=False,
        )
        self.entry(
            dt.date(2026, 3, 4),
            "cash",
            "Rent March",
            ("Repairs and maintenance", "1850", "0"),
            ("Bank", "0", "1850"),
        )
        self.entry(
            dt.date(2026, 3, 9),
            "cash",
            "Repair of the delivery van",
            ("Repairs and maintenance", "655.20", "0"),
            ("Bank", "0", "655.20"),
        )

    def sale(self, party: str, date: dt.date, reference: str, *lines: tuple[str, int]) -> Any:
        """A quotation: product, quantity; prices by the customer's list."""
        Sale, Line = self.models("sale.sale", "sale.line")
        sale = Sale(company=self.company, party=self.parties[party], currency=self.euro)
        sale.on_change_party()
        sale.sale_date, sale.reference = date, reference
        sale.payment_term = self.term
        sale.warehouse = self.one("stock.location", ("type", "=", "warehouse"))
        sale.invoice_method, sale.shipment_method = "fulfillment", "order"
        sale.save()
        for code, quantity in lines:
            line = Line(sale=sale, product=self.products[code], quantity=quantity)
            line.on_change_product()
            line.save()
        sale = Sale(sale.id)
        Sale.quote([sale])
        return sale

    def processed(self, sale: Any) -> Any:
        """The one shipment of a confirmed sale."""
        Sale = self.pool.get("sale.sale")
        Sale.confirm([sale])
        Sale.process([sale])
        (shipment,) = Sale(sale.id).shipments
        return shipment

    def sales(self) -> None:
        """One delivered and invoiced, one packed, one short of stock, quotations, a draft."""
        Shipment, Invoice, Sale = self.models("stock.shipment.out", "account.invoice", "sale.sale")
        day = dt.date
        done = self.processed(
            self.sale(
                "Harbour Dental Clinic", day(2026, 3, 3), "HD-118", ("PAP-A4", 20), ("PEN-BL", 2)
            )
        )
        Shipment.assign_try([done])
        for step in (Shipment.pick, Shipment.pack, Shipment.do):
            step([Shipment(done.id)])
        Sale.process(Sale.search([("shipments", "=", done.id)]))
        (invoice,) = Invoice.search([])
        invoice.invoice_date = day(2026, 3, 6)
        invoice.save()
        Invoice.post([invoice])
        packed = self.processed(
            self.sale(
                "Lindqvist Primary School",
                day(2026, 3, 10),
                "LPS-2026-07",
                ("PAP-A4", 40),
                ("BND-A4", 25),
                ("STP-01", 3),
            )
        )
        Shipment.assign_try([packed])
        for step in (Shipment.pick, Shipment.pack):
            step([Shipment(packed.id)])
        other = self.processed(
            self.sale("Vermeer Legal", day(2026, 3, 11), "VL-33", ("PAP-A4", 30), ("WHB-12", 1))
        )
        Shipment.assign_try([other])
        for step in (Shipment.pick, Shipment.pack):
            step([Shipment(other.id)])
        short = self.processed(
            self.sale("Oakfield Community College", day(2026, 3, 12), "OCC-9", ("CHR-ER", 6))
        )
        Shipment.assign_try([short])
        held = self.processed(
            self.sale("Brandt & Sohn Architekten", day(2026, 3, 13), "BS-201", ("CHR-ER", 2))
        )
        del held
        self.sale("Aalto Engineering", day(2026, 3, 9), "AE-51", ("WHB-12", 2))
        self.sale("Aalto Enginering Oy", day(2026, 3, 13), "AE-52", ("PEN-BL", 4))
        self.sale("Café Marguerite", day(2026, 3, 13), "CM-7", ("PAP-A4", 5))

    def purchases(self) -> None:
        """One confirmed order of paper, nothing received yet."""
        Purchase, Line = self.models("purchase.purchase", "purchase.line")
        purchase = Purchase(
            company=self.company, party=self.parties["Nordic Stationery"], currency=self.euro
        )
        purchase.on_change_party()
        purchase.purchase_date, purchase.reference = dt.date(2026, 3, 11), "Q1 binders"
        purchase.payment_term = self.term
        purchase.warehouse = self.one("stock.location", ("type", "=", "warehouse"))
        purchase.invoice_method = "fulfillment"
        purchase.save()
        line = Line(purchase=purchase, product=self.products["BND-A4"], quantity=100)
        line.on_change_product()
        line.save()
        purchase = Purchase(purchase.id)
        Purchase.quote([purchase])
        Purchase.confirm([purchase])
        Purchase.process([purchase])


def _settle(connection: sqlite3.Connection) -> None:
    """No row says when it was made; nothing is left of who worked while it was made."""
    tables = [
        name
        for (name,) in connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        )
    ]
    for table in tables:
        columns = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
        for column in STAMPS:
            if column in columns:
                connection.execute(
                    f'UPDATE "{table}" SET "{column}" = ? WHERE "{column}" IS NOT NULL', (MADE_AT,)
                )
    for table in (
        "ir_session",
        "ir_session_wizard",
        "ir_cache",
        "ir_queue",
        "res_user_login_attempt",
    ):
        connection.execute(f'DELETE FROM "{table}"')
    connection.execute("PRAGMA page_size = 4096")
    connection.execute("VACUUM")


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    sys.exit(main())
